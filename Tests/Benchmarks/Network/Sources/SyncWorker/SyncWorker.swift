import Ferry
import Foundation
import GRDB

/// `SyncWorker FOLDER SERVER`: one device as a process of its own, driven by a JSON command a line, answered by a JSON line.
///
/// Commands: `{"op":"board"}`, `{"op":"add","n":N,"inOrder":true}` and `{"op":"edit"}` write, each row in a transaction of its own;
/// `{"op":"sync"}` syncs until nothing is left to do, `{"op":"count"}` tells what is there. It ends with its input.
/// Every answer has the seconds of the work, the process's CPU seconds in it, its peak memory in MB (10^6 bytes), and the
/// requests and body bytes (as sent, compressed) that it made.
@main
struct SyncWorker {
    struct Command: Decodable {
        var op: String
        var n: Int?
        var salt: String?
        var inOrder: Bool?
    }

    struct Answer: Encodable {
        var s = 0.0
        var cpu = 0.0
        var peak = 0.0
        var requests = 0
        var bytes = 0
        var records = 0
        var edited = 0
        var inStep = true
    }

    static func main() async throws {
        let folder = CommandLine.arguments[1]
        let store = try Store(path: folder + "/device.sqlite", schema: try Records.schema())
        let http = CountingTransport(AsyncHTTPClientTransport())
        let exchange = try BatchExchange(endpoint: CommandLine.arguments[2], http: http)
        let engine = SyncEngine(store: store, exchange: exchange)
        let records = Records(store: store)
        while let line = readLine() {
            let command = try JSONDecoder().decode(Command.self, from: Data(line.utf8))
            var answer = Answer()
            let before = (processorSeconds(), http.counts())
            let began = ContinuousClock.now
            switch command.op {
            case "board": try records.addBoard()
            case "add": try records.add(command.n ?? 0, salt: command.salt ?? "", isInOrder: command.inOrder ?? false)
            case "edit": try records.editAll()
            case "sync": answer.inStep = try await engine.sync(for: .seconds(600)).isInStep
            default: (answer.records, answer.edited) = try records.counts()
            }
            let took = ContinuousClock.now - began
            answer.s = Double(took.components.seconds) + Double(took.components.attoseconds) * 1e-18
            let after = (processorSeconds(), http.counts())
            answer.cpu = after.0 - before.0
            answer.requests = after.1.requests - before.1.requests
            answer.bytes = after.1.bytes - before.1.bytes
            answer.peak = peakMegabytes()
            FileHandle.standardOutput.write(try JSONEncoder().encode(answer) + Data("\n".utf8))
        }
        await exchange.close()
    }

    private static func processorSeconds() -> Double {
        let usage = usage()
        return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
    }

    private static func peakMegabytes() -> Double { Double(usage().ru_maxrss) * 1_024 / 1e6 }

    private static func usage() -> rusage {
        var usage = rusage()
        #if canImport(Darwin)
            getrusage(RUSAGE_SELF, &usage)
        #else
            getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        #endif
        return usage
    }
}
