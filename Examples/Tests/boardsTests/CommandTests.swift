import Foundation
import SyncCore
import Testing

@testable import boards

@Suite("The commands that work without a network")
struct CommandTests {
    private let shop: Workshop

    init() throws { shop = try Workshop() }

    /// A board, a list and a card on a device.
    private func card(_ device: String) async throws -> (board: String, list: String, card: String) {
        let board = try await shop.ok(device, "add", "board", "name=Garden")
        let list = try await shop.ok(device, "add", "list", "idBoard=\(board)", "name=Ideas")
        return (board, list, try await shop.ok(device, "add", "card", "idList=\(list)", "name=Pond"))
    }

    @Test("add, set, show and delete change this device's records")
    func edits() async throws {
        let ids = try await card("A")
        try await shop.ok("A", "set", "card", ids.card, "desc=", "pos=1.5", "closed=true")
        let shown = try await shop.ok("A", "show", "card", ids.card, "--json")
        #expect(
            shown
                == #"{"closed":true,"desc":"","due":null,"dueComplete":null,"entity":"card","id":"\#(ids.card)","idLabels":null,"idList":"\#(ids.list)","idMembers":null,"name":"Pond","pos":1.5,"start":null}"#
        )
        try await shop.ok("A", "set", "card", ids.card, "name:null")
        #expect(try await shop.ok("A", "show", "card", ids.card).contains(#""name":null"#))
        try await shop.ok("A", "delete", "list", ids.list)
        #expect(try await shop.ok("A", "show", "card") == "", "a deleted list takes its cards out of sight")
        #expect(try await shop.on("A", "show", "card", ids.card).status == 1)
        #expect(
            try await shop.boards(["show", "--data", shop.file("A")]).lines.count == 1, "options behind the command")
    }

    @Test("a UUID is taken in any case and kept in lower case")
    func uuid() async throws {
        let id = "0195A3F2-C4D1-7000-8000-0000000000AB"
        #expect(try await shop.ok("A", "add", "board", "--id", id, "name=x") == id.lowercased())
        #expect(try await shop.ok("A", "show", "board", id).contains(id.lowercased()))
    }

    @Test("bad input: one sentence, status 1, nothing changed")
    func badInput() async throws {
        let ids = try await card("A")
        let before = try await shop.ok("A", "show")
        let pending = try await shop.ok("A", "pending", "--json")
        try shop.write("{", to: "broken.json")
        try shop.write("[]", to: "list.json")
        let wrong: [[String]] = [
            ["add", "house", "name=x"], ["add", "card", "name=x"], ["add", "card", "idList=nowhere", "name=x"],
            ["add", "board", "colour=red"], ["add", "board", "--id", ids.board, "name=x"],
            ["add", "board", "--id", "a b", "name=x"], ["add", "board", "closed=maybe"],
            ["set", "card", "nowhere", "name=x"], ["set", "card", ids.card, "due=soon"],
            ["set", "card", ids.card, "name=x", "pos=high"], ["set", "card", ids.card, "idList:null"],
            ["set", "card", ids.card, "idList=nowhere"], ["set", "house", ids.card, "name=x"],
            ["delete", "card", "nowhere"], ["delete", "house", ids.card], ["show", "house"],
            ["show", "card", "nowhere"],
            ["status", "card", "nowhere"], ["cancel", "nowhere"], ["retry", "nowhere"], ["discard", "nowhere"],
            ["import", shop.file("none.json")], ["import", shop.folder], ["import", shop.file("broken.json")],
            ["import", shop.file("list.json")], ["replay", shop.file("none.json")],
            ["replay", shop.file("broken.json")], ["replay", shop.file("list.json")],
        ]
        for arguments in wrong {
            let finished = try await shop.boards(["--data", shop.file("A")] + arguments)
            #expect(finished.status == 1, "\(arguments)")
            #expect(finished.output == "", "\(arguments)")
            #expect(finished.complaint.count { $0 == "\n" } == 1, "\(arguments): \(finished.complaint)")
        }
        #expect(try await shop.ok("A", "show") == before)
        #expect(try await shop.ok("A", "pending", "--json") == pending)
        let folder = try await shop.boards(["--data", shop.file("broken.json/A"), "show"])
        #expect(folder.status == 1)
    }

    @Test("wrong arguments: status 2, said on stderr")
    func wrongArguments() async throws {
        let wrong: [[String]] = [
            [], ["frobnicate"], ["add"], ["add", "board"], ["add", "board", "name"], ["set", "card"],
            ["set", "card", "x"],
            ["delete", "card"], ["show", "card", "x", "y"], ["show", "--wide"], ["status", "card"], ["import"],
            ["replay"], ["cancel"], ["retry"], ["discard"], ["sync"], ["sync", "--server", "nowhere"],
            ["sync", "--server", "http://127.0.0.1:1", "--timeout", "soon"],
            ["sync", "--server", "http://127.0.0.1:1", "--timeout", "-1"],
            ["sync", "--server", "http://127.0.0.1:1", "--once", "--watch"],
            ["sync", "--server", "http://example.org"],
            ["sync", "--server", "http://127.0.0.1:1", "--token", "a b"],
            ["sync", "--server", "http://127.0.0.1:1", "--token", "a\r\nX-Evil: 1"], ["serve", "--port", "many"],
            ["backup"], ["--data"],
        ]
        for arguments in wrong {
            let finished = try await shop.boards(arguments)
            #expect(finished.status == 2, "\(arguments): \(finished.complaint)")
            #expect(finished.output == "", "\(arguments)")
            #expect(!finished.complaint.isEmpty, "\(arguments)")
        }
        for arguments in [["--help"], ["help", "sync"], ["add", "--help"]] {
            #expect(try await shop.boards(arguments).status == 0)
        }
    }

    @Test("an export is imported once, and its history replayed to the same names")
    func exports() async throws {
        let file = try shop.write(JSONText.text(SampleBoard.export()), to: "garden.json")
        let first = try await shop.on("A", "import", file, "--json").json
        #expect(first["imported"]?["card"] == 18)
        let again = try await shop.on("A", "import", file, "--json").json
        #expect(again["skipped"] == 48)
        #expect(again["imported"]?["card"] == 0)
        #expect(try await shop.on("A", "pending", "--json").json.count == 48)

        let replay = try await shop.on("B", "replay", file, "--json").json
        #expect(replay["withoutEffect"] == 0)
        #expect(replay["unknown"] == .object([:]))
        #expect(try await names("A", of: "card") == names("B", of: "card"))
        #expect(try await names("A", of: "list") == names("B", of: "list"))
        let edits = try await shop.on("B", "pending", "--json").output
        #expect(edits.contains(#""name":{"new":"A pond","old":"A pond?"}"#))
    }

    @Test("pending, status and cancel tell of the queue")
    func queue() async throws {
        let ids = try await card("A")
        #expect(try await shop.ok("A", "status").hasPrefix("queued"))
        #expect(try await shop.on("A", "status", "board", ids.board, "--json").json["state"] == "queued")
        try await shop.ok("A", "set", "card", ids.card, "name=Lake")
        let pending = try await shop.on("A", "pending", "--json").json
        #expect(pending.count == 4)
        #expect(pending[0]?["operation"] == "create")
        #expect(pending[0]?["entity"] == "board")
        #expect(pending[3]?["fields"]?["name"] == ["old": "Pond", "new": "Lake"])
        let change = try #require(pending[3]?["changeID"]?.string)
        try await shop.ok("A", "cancel", change)
        #expect(try await shop.ok("A", "show", "card", ids.card).contains(#""name":"Pond""#))
        #expect(try await shop.on("A", "pending", "--json").json.count == 3)
        #expect(try await shop.on("A", "failures", "--json").output == "[]\n")
        #expect(try await shop.on("A", "conflicts", "--json").output == "[]\n")
    }

    @Test("results that nobody can take: status 1 and one sentence; a complaint that nobody can take: its status")
    func nowhereToWrite() async throws {
        try await shop.ok("A", "add", "board", "name=x")
        // Linux has a file that is always full.
        guard let full = FileHandle(forWritingAtPath: "/dev/full") else { return }
        let (output, complaint) = (shop.file("full.out"), shop.file("full.err"))
        let show = try shop.process(["--data", shop.file("A"), "show"], output: output, complaint: complaint)
        show.standardOutput = full
        try show.run()
        show.waitUntilExit()
        #expect(show.terminationReason == .exit && show.terminationStatus == 1)
        #expect(try String(contentsOfFile: complaint, encoding: .utf8).count { $0 == "\n" } == 1)
        let wrong = try shop.process(["frobnicate"], output: output, complaint: complaint)
        wrong.standardError = full
        try wrong.run()
        wrong.waitUntilExit()
        #expect(wrong.terminationReason == .exit && wrong.terminationStatus == 2)
    }

    @Test(
        "streams that come closed: nothing is printed into the database or a socket, and results that nobody can take have status 1"
    )
    func closedStreams() async throws {
        let (output, complaint) = (shop.file("closed.out"), shop.file("closed.err"))
        func run(_ words: String) throws -> (Int32, String) {
            let shell = try shop.process([], output: output, complaint: complaint)
            shell.executableURL = URL(filePath: "/bin/sh")
            shell.arguments = ["-c", "\"$0\" --data \"$1\" \(words)", Workshop.program.path(), shop.file("A")]
            try shell.run()
            shell.waitUntilExit()
            return (shell.terminationStatus, try String(contentsOfFile: complaint, encoding: .utf8))
        }
        let sentence = "The results could not be written; what was to be done is done.\n"
        #expect(try run("add board name=x >&- <&-") == (1, sentence))
        #expect(try run("add board name=y 2>&- >&-").0 == 1)
        #expect(try run("show >&-") == (1, sentence))
        #expect(try run("frobnicate 2>&-").0 == 2)
        let server = try await ServerProcess(shop)
        #expect(try run("sync --server \(server.url) <&- >&- 2>&-").0 == 1)
        #expect(try await shop.ok("A", "show", "board").contains(#""name":"y""#))
        #expect(try await shop.ok("A", "status") == "synced")
        #expect(server.stop() == 0)
    }

    @Test("PRC-14 a damaged database: what waited is saved and sent on, and the command says so once")
    func damaged() async throws {
        let ids = try await card("A")
        let pending = try await shop.on("A", "pending", "--json").json
        let handle = try FileHandle(forUpdating: URL(filePath: shop.file("A") + "/boards.sqlite"))
        try handle.write(contentsOf: Data(repeating: 0x55, count: 16))
        try handle.close()
        let status = try await shop.on("A", "status")
        #expect(status.status == 0)
        #expect(status.output.hasPrefix("queued (3 waiting)\nThe database was damaged"))
        #expect(status.complaint.contains("damaged") && status.complaint.contains("3 unsent"))
        let after = try await shop.on("A", "pending", "--json")
        #expect(after.complaint == "")
        #expect(try after.json.count == 3)
        for index in 0..<3 { #expect(try after.json[index]?["changeID"] == pending[index]?["changeID"]) }
        #expect(try await shop.ok("A", "show", "card", ids.card).contains(#""name":"Pond""#))
    }

    @Test("without a folder's name the database is in .boards of $HOME, as a shell's ~ is")
    func home() async throws {
        let finished = try await shop.boards(["add", "board", "name=Garden"])
        #expect(finished.status == 0, "\(finished.complaint)")
        #expect(FileManager.default.fileExists(atPath: shop.file(".boards/boards.sqlite")))
    }

    @Test("ten processes that begin the same database at once all get their record in")
    func atOnce() async throws {
        try await withThrowingTaskGroup(of: Int32.self) { group in
            for _ in 0..<10 { group.addTask { try await shop.on("A", "add", "board", "name=x").status } }
            for try await status in group { #expect(status == 0) }
        }
        #expect(try await shop.on("A", "show").lines.count == 10)
        #expect(try await shop.on("A", "pending", "--json").json.count == 10)
    }

    @Test("PRC-14 the same where a database was, and is gone: each record is in, and one process says so")
    func atOnceAnew() async throws {
        try await shop.ok("A", "add", "board", "name=gone")
        for suffix in ["", "-wal", "-shm"] {
            let path = shop.file("A/boards.sqlite" + suffix)
            if FileManager.default.fileExists(atPath: path) { try FileManager.default.removeItem(atPath: path) }
        }
        var told = 0
        try await withThrowingTaskGroup(of: Finished.self) { group in
            for _ in 0..<10 { group.addTask { try await shop.on("A", "add", "board", "name=x") } }
            for try await finished in group {
                #expect(finished.status == 0, "\(finished.complaint)")
                told += finished.complaint.contains("gone") ? 1 : 0
            }
        }
        #expect(told == 1)
        #expect(try await shop.on("A", "show").lines.count == 10)
    }

    @Test("an unknown command's help, a token with spaces where nothing is sent, a truth in a set: each is refused")
    func refusedArguments() async throws {
        let help = try await shop.boards(["help", "bogus"])
        #expect(help.status == 2 && help.complaint.contains("no command “bogus”"))
        #expect(try await shop.boards(["help", "show"]).status == 0)
        #expect(try await shop.boards(["help"]).status == 0)
        let token = try await shop.on("A", "show", "--token", "a b")
        #expect(token.status == 2 && token.complaint.contains("visible ASCII") && !token.complaint.contains("a b"))
        let board = try await shop.ok("A", "add", "board", "name=B")
        let list = try await shop.ok("A", "add", "list", "name=L", "idBoard=\(board)")
        let set = try await shop.on("A", "add", "card", "name=C", "idList=\(list)", "idLabels=[true]")
        #expect(set.status == 1 && set.complaint.contains("an array of texts or numbers"))
    }

    @Test("QUE-14 a queue of several parts is one JSON value, in its order, and a line for each change")
    func longQueue() async throws {
        let board = try await shop.ok("A", "add", "board", "name=Garden")
        var cards = ""
        for index in 0..<2_300 { cards += (index == 0 ? "" : ",") + #"{"id":"c\#(index)","name":"x","idList":"l"}"# }
        let export = try shop.write(
            #"{"id":"\#(board)","name":"Garden","lists":[{"id":"l","name":"L"}],"cards":[\#(cards)],"actions":[]}"#,
            to: "b.json")
        try await shop.ok("A", "import", export)
        let pending = try await shop.on("A", "pending", "--json")
        #expect(pending.lines.count == 1)
        let list = try pending.json
        #expect(list.count == 2_302)
        for index in 0..<2_302 { #expect(list[index]?["sequence"] == .int(Int64(index + 1))) }
        #expect(try await shop.on("A", "pending").lines.count { $0.contains(" card") } == 2_300)
        let last = try #require(list[2_301]?["changeID"]?.string)
        #expect(try await shop.ok("A", "cancel", last).contains(last))
    }

    private func names(_ device: String, of entity: String) async throws -> [String: FieldValue] {
        var names: [String: FieldValue] = [:]
        for line in try await shop.on(device, "show", entity).lines {
            let record = try FieldValue(json: line)
            if case .string(let id)? = record["id"] { names[id] = record["name"] ?? .null }
        }
        return names
    }
}
