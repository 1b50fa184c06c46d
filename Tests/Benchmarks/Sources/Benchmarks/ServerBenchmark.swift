import Foundation
import GRDB
import Measuring

/// The reference server in a process of its own, over HTTP on this machine; one core is this client's.
enum ServerBenchmark {
    static func run(in folder: URL) async throws -> [Figure] {
        guard let boards = program("FERRY_BOARDS"), let bare = program("FERRY_BAREROUTE") else {
            throw LoadClient.Fault(description: "start it by Tests/Benchmarks/run server, which builds the server")
        }
        return [
            try empty(boards, bare, folder), try create(boards, folder),
        ] + (try devices(boards, folder)) + [try streams(boards, folder)]
    }

    private static func program(_ name: String) -> String? { ProcessInfo.processInfo.environment[name] }

    private static func serve(_ boards: String, _ folder: URL, _ name: String, _ more: [String] = []) throws
        -> ServedProcess
    {
        let database = folder.appendingPathComponent("\(name).sqlite").path
        return try ServedProcess(
            boards, ["serve", "--port", "0", "--log", "error", "--database", database] + more)
    }

    // MARK: - A sync of nothing

    private static func empty(_ boards: String, _ bare: String, _ folder: URL) throws -> Figure {
        let server = try serve(boards, folder, "empty", ["--rate", "1000000"])
        defer { server.stop() }
        let framework = try ServedProcess(bare, [])
        defer { framework.stop() }
        let body = """
            {"protocol":1,"cycleID":"0b6f3f0a-6f0c-4e0e-9d55-0d6a1f6d2a11","deviceID":"d1","lastSyncVersion":0,\
            "settled":0,"limit":500,"dirtyRecords":[]}
            """
        let sync = LoadClient.sync(body)
        let json = Array("GET /json HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".utf8)
        var ours: [Double] = []
        var theirs: [Double] = []
        for _ in 0..<5 {
            ours.append(try LoadClient(port: server.port).rate(of: sync, connections: 32, seconds: 2))
            theirs.append(try LoadClient(port: framework.port).rate(of: json, connections: 32, seconds: 2))
        }
        return Figure(
            name: "server-empty-sync",
            what: "a sync of nothing against the framework's bare JSON route, each over 32 kept connections",
            value: 1e6 / TransportBenchmark.middle(ours), unit: "us", bare: 1e6 / TransportBenchmark.middle(theirs),
            goal: 1 / 0.6)
    }

    // MARK: - Creates

    /// What Foundation decodes in the bare measurement.
    fileprivate struct Request: Decodable {
        struct Change: Decodable {
            struct Field: Decodable { let new: Value }
            let changeID: String
            let sequence: Int
            let entity: String
            let id: String
            let operation: String
            let schemaVersion: Int
            let stamp: String
            let fields: [String: Field]
        }
        let cycleID: String
        let deviceID: String
        let lastSyncVersion: Int
        let dirtyRecords: [Change]
    }

    fileprivate enum Value: Decodable {
        case text(String)
        case number(Double)

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let text = try? container.decode(String.self) {
                self = .text(text)
            } else {
                self = .number(try container.decode(Double.self))
            }
        }
    }

    private static func requests(prefix: String) -> [String] {
        (0..<20).map { request in
            let changes = (0..<500).map { index -> String in
                let n = request * 500 + index
                return """
                    {"changeID":"\(prefix)-0000-7000-8000-\(padded(n))","sequence":\(n + 2),"entity":"card",\
                    "id":"\(prefix)-1111-7000-8000-\(padded(n))","operation":"create","schemaVersion":1,\
                    "stamp":"0195a3f2c4d1-0004","fields":{"idList":{"new":"list"},"name":{"new":"Card number \(n)"},\
                    "desc":{"new":"What is to be done, in a sentence or two, for number \(n)."},\
                    "pos":{"new":\(n).5},"due":{"new":"2026-11-21T08:00:00.123Z"}}}
                    """
            }
            return """
                {"protocol":1,"cycleID":"c\(request)","deviceID":"d1","lastSyncVersion":0,"limit":1,\
                "dirtyRecords":[\(changes.joined(separator: ","))]}
                """
        }
    }

    private static func padded(_ n: Int) -> String { String(String(1_000_000_000_000 + n).dropFirst()) }

    private static func create(_ boards: String, _ folder: URL) throws -> Figure {
        var ours: [Double] = []
        var theirs: [Double] = []
        for round in 0..<5 {
            let bodies = requests(prefix: "0195a3f\(round)")
            let server = try serve(boards, folder, "create\(round)")
            let client = LoadClient(port: server.port)
            let connection = try LoadClient.Connection(port: server.port)
            let parents = """
                {"protocol":1,"cycleID":"c","deviceID":"d0","lastSyncVersion":0,"dirtyRecords":[{"changeID":"p",\
                "sequence":1,"entity":"list","id":"list","operation":"create","stamp":"0195a3f2c4d1-0001","fields":{}}]}
                """
            _ = try client.ask(LoadClient.sync(parents), over: connection)
            let requests = bodies.map { LoadClient.sync($0) }
            ours.append(
                try seconds {
                    for request in requests {
                        let answer = try client.ask(request, over: connection)
                        precondition(answer.status == 200 && answer.body.count > 500 * 60)
                    }
                })
            server.stop()
            theirs.append(try bare(bodies, folder.appendingPathComponent("bare\(round).sqlite").path))
        }
        return Figure(
            name: "server-create",
            what: "10,000 creates in requests of 500, against decoding the same bytes by Foundation and writing the "
                + "same rows by a prepared statement, with one commit a request",
            value: TransportBenchmark.middle(ours) * 1e3, unit: "ms", bare: TransportBenchmark.middle(theirs) * 1e3,
            goal: 2.5)
    }

    private static func bare(_ bodies: [String], _ path: String) throws -> Double {
        var configuration = Configuration()
        configuration.journalMode = .wal
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = FULL") }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE card(id TEXT PRIMARY KEY, version INTEGER NOT NULL, idList TEXT, name TEXT, desc TEXT,
                    pos REAL, due TEXT)
                    """)
        }
        let data = bodies.map { Data($0.utf8) }
        let time = try seconds {
            var version = 0
            for body in data {
                let request = try JSONDecoder().decode(Request.self, from: body)
                try queue.write { db in
                    let insert = try db.cachedStatement(
                        sql: "INSERT INTO card(id, version, idList, name, desc, pos, due) VALUES (?, ?, ?, ?, ?, ?, ?)")
                    for change in request.dirtyRecords {
                        version += 1
                        try insert.execute(
                            arguments: [
                                change.id, version, change.text("idList"), change.text("name"), change.text("desc"),
                                change.number("pos"), change.text("due"),
                            ])
                    }
                }
            }
        }
        try queue.close()
        return time
    }

    // MARK: - Many devices

    /// 10,000 devices in 1,000 accounts, each with one change and one new connection in a minute, evenly spread.
    private static func devices(_ boards: String, _ folder: URL) throws -> [Figure] {
        let tokens = folder.appendingPathComponent("tokens").path
        try (0..<1_000).map { "token\($0) account\($0)\n" }.joined()
            .write(toFile: tokens, atomically: true, encoding: .utf8)
        let server = try serve(boards, folder, "devices", ["--tokens", tokens])
        defer { server.stop() }
        let clock = ContinuousClock()
        let before = try server.cpuSeconds
        let start = clock.now
        // From when each was due, whatever became of those before it.
        var times = try LoadClient(port: server.port).times(of: 10_000, every: .milliseconds(6)) { device in
            let body = """
                {"protocol":1,"cycleID":"c\(device)","deviceID":"d\(device)","lastSyncVersion":0,"limit":500,\
                "dirtyRecords":[{"changeID":"k\(device)","sequence":1,"entity":"board","id":"b\(device)",\
                "operation":"create","schemaVersion":1,"stamp":"0195a3f2c4d1-0004","fields":{"name":{"new":"Board"}}}]}
                """
            return LoadClient.sync(body, token: "token\(device % 1_000)", isLast: true)
        }
        let cores = (try server.cpuSeconds - before) / ((clock.now - start) / .seconds(1))
        times.sort()
        return [
            Figure(
                name: "server-devices-cpu",
                what: "10,000 devices that each sync one change a minute over a new connection, in cores; bare is one",
                value: cores, unit: "cores", bare: 1, goal: 0.5),
            Figure(
                name: "server-devices-p99", what: "the 99th of a hundred of these syncs, in ms; bare is 1 ms",
                value: times[times.count * 99 / 100] * 1e3, unit: "ms", bare: 1, goal: 50),
        ]
    }

    // MARK: - Event streams

    private static func streams(_ boards: String, _ folder: URL) throws -> Figure {
        var limit = rlimit()
        #if canImport(Darwin)
            let files = RLIMIT_NOFILE
        #else
            let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #endif
        getrlimit(files, &limit)
        limit.rlim_cur = min(limit.rlim_max, 20_000)
        setrlimit(files, &limit)
        let server = try serve(boards, folder, "streams", ["--rate", "1000000"])
        defer { server.stop() }
        let ask = Array("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
        var connections: [LoadClient.Connection] = []
        for _ in 0..<5_000 {
            let connection = try LoadClient.Connection(port: server.port)
            try connection.send(ask)
            try connection.wait(for: ": here")
            connections.append(connection)
        }
        // One commit, told to all.
        let change = """
            {"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[{"changeID":"k","sequence":1,\
            "entity":"board","id":"b","operation":"create","stamp":"0195a3f2c4d1-0004","fields":{}}]}
            """
        _ = try LoadClient(port: server.port).ask(LoadClient.sync(change))
        for connection in connections { try connection.wait(for: "board:b") }
        return Figure(
            name: "server-streams",
            what: "the server's memory with 5,000 open event streams, after one commit told to all; bare is 1 MB",
            value: try server.memory / 1e6, unit: "MB", bare: 1, goal: 200)
    }
}

extension ServerBenchmark.Request.Change {
    fileprivate func text(_ name: String) -> String? {
        if case .text(let text)? = fields[name]?.new { text } else { nil }
    }
    fileprivate func number(_ name: String) -> Double? {
        if case .number(let number)? = fields[name]?.new { number } else { nil }
    }
}
