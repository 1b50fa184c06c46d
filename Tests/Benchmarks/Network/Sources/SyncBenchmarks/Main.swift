import Foundation

/// `Tests/Benchmarks/run sync [COUNT] [--peer PROGRAM] [--ordered-ids] [--json]`: two devices and the reference server, each a
/// process of its own over loopback, side by side with a peer that does the same work in the same run.
///
/// Records have ids in no order, as the peer's records have in their contents; with `--ordered-ids` they are of version 7, as an
/// app's are that takes the engine's, and as the peer numbers its own rows (Decision 225). Without a peer there is nothing to compare with: `bare`, `ratio` and `met` are then null.
@main
struct Main {
    struct Figure {
        var name: String
        var what: String
        var value: Double
        var unit: String
        var bare: Double?
        var goal: Double

        var line: String {
            let value = (value * 10_000).rounded() / 10_000
            guard let bare else { return "\(name): \(value) \(unit)\n    \(what)" }
            let ratio = (self.value / bare * 100).rounded() / 100
            return "\(name): \(value) \(unit), bare \(bare), ratio \(ratio), goal \(goal): "
                + "\(ratio <= goal ? "met" : "MISSED")\n    \(what)"
        }

        var json: String {
            let ratio = bare.map { value / $0 }
            return """
                {"name":"\(name)","what":"\(what)","value":\(value),"unit":"\(unit)",\
                "bare":\(bare.map { "\($0)" } ?? "null"),"ratio":\(ratio.map { "\($0)" } ?? "null"),"goal":\(goal),\
                "met":\(ratio.map { "\($0 <= goal)" } ?? "null")}
                """
        }
    }

    static func main() throws {
        var words = Array(CommandLine.arguments.dropFirst())
        let asJSON = words.contains("--json")
        let isInOrder = words.contains("--ordered-ids")
        words.removeAll { ["--json", "--ordered-ids"].contains($0) }
        var peer: String?
        if let at = words.firstIndex(of: "--peer"), at + 1 < words.count {
            peer = words[at + 1]
            words.removeSubrange(at...(at + 1))
        }
        let count = words.first.flatMap { Int($0) } ?? 10_000
        let theirs = try peer.map { try Peer.measure($0, count) } ?? [:]
        let figures = try measure(count, theirs, isInOrder: isInOrder)
        print(
            asJSON ? "[\(figures.map(\.json).joined(separator: ",\n "))]" : figures.map(\.line).joined(separator: "\n"))
    }

    private static func environment(_ name: String) throws -> String {
        guard let value = ProcessInfo.processInfo.environment[name] else {
            throw Program.Fault(description: "\(name) is not set; use Tests/Benchmarks/run sync")
        }
        return value
    }

    private static func measure(_ count: Int, _ peer: [String: Double], isInOrder: Bool) throws -> [Figure] {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-sync-\(UUID())")
        for name in ["a", "b"] {
            try FileManager.default.createDirectory(
                at: folder.appendingPathComponent(name), withIntermediateDirectories: true)
        }
        defer {
            do { try FileManager.default.removeItem(at: folder) } catch { print("left behind: \(folder.path)") }
        }
        let server = try Program(
            environment("FERRY_BOARDS"), ["serve", "--port", "0", "--database", folder.path + "/server.sqlite"])
        let address =
            String(decoding: try server.line(), as: UTF8.self).split(separator: " ").last.map(String.init) ?? ""
        let worker = try environment("FERRY_SYNC_WORKER")
        let a = try Program(worker, [folder.path + "/a", address])
        let b = try Program(worker, [folder.path + "/b", address])
        _ = try a.ask(#"{"op":"board"}"#)
        for device in [a, b] { _ = try device.ask(#"{"op":"sync"}"#) }

        var figures: [Figure] = []
        func phase(_ name: String, _ what: String, _ device: Program) throws {
            let before = server.processorSeconds
            let measured = try device.ask(#"{"op":"sync"}"#)
            guard measured.inStep else { throw Program.Fault(description: "\(name) did not end in step") }
            let spent = ((server.processorSeconds - before) * 100).rounded() / 100
            let cpu = (measured.cpu * 100).rounded() / 100
            let detail =
                "\(what): \(measured.requests) requests, \(measured.bytes) bytes of bodies, "
                + "CPU \(cpu) s here and \(spent) s at the server"
            figures.append(
                Figure(
                    name: "sync-\(name)", what: detail, value: measured.s, unit: "s",
                    bare: peer[name.replacingOccurrences(of: "-", with: "_")], goal: 0.5))
        }
        let added = try a.ask(#"{"op":"add","n":\#(count),"salt":"x","inOrder":\#(isInOrder)}"#)
        try phase("up", "\(count) records created, pushed", a)
        try phase("down", "\(count) records pulled by another device", b)
        var idle: [Measured] = []
        for _ in 0..<21 { idle.append(try a.ask(#"{"op":"sync"}"#)) }
        idle.sort { $0.s < $1.s }
        figures.append(
            Figure(
                name: "sync-idle",
                what:
                    "nothing to do, the middle of 21: \(idle[10].requests) request, \(idle[10].bytes) bytes of bodies",
                value: idle[10].s, unit: "s", bare: peer["idle_after"], goal: 1.5))
        _ = try a.ask(#"{"op":"edit"}"#)
        try phase("edit-up", "one field of each of \(count) records edited, pushed", a)
        try phase("edit-down", "\(count) edits pulled by another device", b)
        let (one, other) = (try a.ask(#"{"op":"count"}"#), try b.ask(#"{"op":"count"}"#))
        guard other.records == count, other.edited == count else {
            throw Program.Fault(description: "the other device holds \(other.records), \(other.edited) of them edited")
        }
        figures.append(
            Figure(
                name: "sync-write", what: "\(count) records written on the device, each in its own transaction",
                value: added.s, unit: "s", bare: peer["write"], goal: 1))
        let peak = max(one.peak, other.peak, server.peak)
        figures.append(
            Figure(
                name: "sync-memory",
                what:
                    "the most memory of a process, against 80 MB: \(one.peak) and \(other.peak) MB the devices, \(server.peak) MB the server",
                value: peak, unit: "MB", bare: 80, goal: 1))
        for device in [a, b] { try device.stop() }
        try server.stop(bySignal: true)
        return figures
    }
}
