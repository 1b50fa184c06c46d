import ArgumentParser
import BoardsModel
import Foundation
import SyncCore

/// The demonstration: what happens on two devices, told while it happens, with the very commands that one could type.
struct Demo {
    /// A temporary folder; each device has one of its own in it.
    let folder: String
    /// Where the server listens.
    let port: Int

    func tell() async throws {
        let export = try exportFile()
        say("A server runs on port \(port) of this machine. There are two devices: a laptop and a phone.")

        say("The laptop has no network. It takes over a whole Trello board into its own database, and goes on.")
        try await boards("laptop", "import", export)
        try await boards("laptop", "status")

        say("The network is there: the laptop sends what waited, and the phone, which is new, gets everything.")
        try await boards("laptop", "sync", isOnline: true)
        try await boards("phone", "sync", isOnline: true)

        say("Both lose the network again. On both, somebody works on the same card, and on others.")
        let card = try await firstCard()
        try await boards(
            "laptop", "set", "card", card.id, "name=Named on the laptop", "desc=Only the laptop said this.")
        try await boards(
            "laptop", "add", "comment", "--id", "demo-comment", "idCard=\(card.id)", "text=Back in a minute.")
        try await boards("phone", "set", "card", card.id, "name=Named on the phone", "due=2026-12-24T18:00:00Z")
        try await boards("phone", "add", "card", "--id", "demo-card", "idList=\(card.list)", "name=Made on the phone")
        try await boards("phone", "pending")

        say("The network is back. First the laptop syncs, then the phone, then the laptop again.")
        try await boards("laptop", "sync", isOnline: true)
        try await boards("phone", "sync", isOnline: true)
        try await boards("laptop", "sync", isOnline: true)

        say("Both had named the card. The later name stands, on both; who had said what is kept, nothing is silent.")
        try await boards("phone", "conflicts")
        try await boards("laptop", "show", "card", card.id)

        try await prove()
    }

    /// Both devices, and one that never saw anything but the server, hold the same bytes.
    private func prove() async throws {
        say("The proof: a third, empty device asks the server for all that it holds. All three must say the same.")
        try await boards("witness", "sync", isOnline: true)
        var lines: [String: String] = [:]
        for device in ["laptop", "phone", "witness"] { lines[device] = try await records(of: device) }
        guard let server = lines["witness"], !server.isEmpty else { throw Problem("The server holds no records.") }
        for device in ["laptop", "phone"] {
            guard lines[device] == server else { throw Problem("The \(device) holds other records than the server.") }
            let count = server.count { $0 == "\n" }
            Console.print("    the \(device) and the server hold the same \(count) records, byte for byte")
        }
        Console.print("\nDone. `boards --help` lists the commands; each works without a network, `sync` excepted.")
    }

    private func say(_ sentence: String) { Console.print("\n\(sentence)") }

    /// Runs a command on a device as if it had been typed.
    private func boards(_ device: String, _ arguments: String..., isOnline: Bool = false) async throws {
        let shown = arguments.map { $0.replacing("\(folder)/", with: "") }
            .map { $0.contains(" ") ? "'\($0)'" : $0 }.joined(separator: " ")
        let server = isOnline ? ["--server", "http://127.0.0.1:\(port)"] : []
        Console.print("  $ boards --data \((([device] + server).joined(separator: " "))) \(shown)")
        let status = await Console.$indentation.withValue("    ") {
            await Program.run(Boards.self, ["--data", path(device)] + server + arguments)
        }
        guard status == 0 else { throw Problem("The command above ended with status \(status).") }
    }

    private func path(_ device: String) -> String { "\(folder)/\(device)" }

    private func records(of name: String) async throws -> String {
        let device = try Device.open(folder: path(name))
        let records = device.records
        return Canonical.lines(try await device.read { try records.fetchAll($0) }, schema: records.schema)
    }

    private func firstCard() async throws -> (id: String, list: String) {
        let device = try Device.open(folder: path("laptop"))
        let records = device.records
        let card = try await device.read { db in
            try records.fetchAll(db, only: records.schema["card"]).min { $0.key < $1.key }
        }
        guard let card, case .string(let list)? = card.fields["idList"] else { throw Problem("The board has no card.") }
        return (card.key.id, list)
    }

    /// The real board beside this checkout, else the board that the program makes itself.
    private func exportFile() throws -> String {
        // Examples/Sources/boards/Demo/Demo.swift: the checkout is five folders up, and its neighbour has the board.
        var checkout = URL(filePath: #filePath)
        for _ in 0..<5 { checkout.deleteLastPathComponent() }
        let real = checkout.appending(path: "../shared/data/board-television.json").standardizedFileURL.path()
        if FileManager.default.fileExists(atPath: real) { return real }
        let file = folder + "/garden.json"
        try Data(JSONText.text(SampleBoard.export()).utf8).write(to: URL(filePath: file))
        return file
    }
}
