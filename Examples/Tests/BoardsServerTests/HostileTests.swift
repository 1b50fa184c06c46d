import Foundation
import Testing

@testable import BoardsServer

/// A million bytes of whoever means no good.
@Suite("hostile bytes", .timeLimit(.minutes(10))) struct HostileTests {
    @Test(
        "SEC-17 SEC-18 NET-10 a million hostile bytes: never a 500, never a hang, memory flat, the next honest one is answered"
    )
    func million() async throws {
        let server = try ServerProcess("--idle", "5", "--body-deadline", "4", "--body-idle", "1")
        var source = HostileSource(seed: 20_261_121)
        var sent = 0
        var requests = 0
        var warm: Int?
        while sent < 1_000_000 || requests < 600 {
            let bytes = source.next()
            sent += bytes.count
            requests += 1
            var answer = ""
            try await RawConnection.open(server.port) { connection in
                try await connection.send(bytes)
                connection.finish()
                answer = try await connection.rest()
            }
            for line in answer.components(separatedBy: "\r\n") where line.hasPrefix("HTTP/1.1 ") {
                #expect(
                    !line.hasPrefix("HTTP/1.1 5"), "\(line) to \(String(decoding: bytes.prefix(200), as: UTF8.self))")
            }
            if requests % 20 == 0 {
                let honest = try await server.client.sync(WholeServerTests.request(device: "honest"))
                #expect(honest.status == 200, "\(honest.text)")
            }
            if requests == 200 { warm = server.memory }
        }
        // The slow ones: as many as a small attacker has, each with half a request.
        try await Self.trickle(server.port, count: 64)
        #expect(try await server.client.sync(WholeServerTests.request(device: "honest")).status == 200)
        let now = server.memory
        if let warm, let now { #expect(now - warm < 48 << 20, "\(warm) grew to \(now)") }
        let figures = try await server.client.send(.GET, "/metrics").text
        #expect(figures.contains("boards_held_request_bytes 0\n"), "\(figures)")
        #expect(try server.stop().status == 0)
        let megabytes = [warm, now].map { $0.map { "\($0 >> 20)" } ?? "?" }
        print(
            "hostile bytes: \(sent) in \(requests) requests; memory \(megabytes[0]) MiB after 200, \(megabytes[1]) at the end"
        )
    }

    /// Half a head, half a body, and nothing more: each is told so, and ended.
    private static func trickle(_ port: Int, count: Int) async throws {
        try await withThrowingTaskGroup(of: String.self) { group in
            for n in 0..<count {
                group.addTask {
                    let head = "POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                    let text = n % 2 == 0 ? head + "Content-Length: 500\r\n\r\n{\"proto" : head + "X-Half"
                    return try await RawConnection.say(text, to: port)
                }
            }
            for try await answer in group {
                #expect(answer.hasPrefix("HTTP/1.1 408") && answer.contains(#""code":"timeout""#), "\(answer)")
            }
        }
    }
}

/// Hostile requests from a seed, each ready for the wire.
struct HostileSource {
    private var state: UInt64
    private var turn = 0

    init(seed: UInt64) { state = seed }

    private mutating func random(below bound: Int) -> Int {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return Int((mixed ^ (mixed >> 31)) % UInt64(bound))
    }

    mutating func next() -> [UInt8] {
        turn += 1
        switch turn % 12 {
        case 0: return (0..<random(below: 3_000)).map { _ in UInt8(random(below: 256)) }
        case 1, 2, 3: return post(mutated())
        case 4: return post(Array((String(repeating: #"{"a":["#, count: 1 + random(below: 3_000))).utf8))
        case 5: return post(wide())
        case 6: return post(wrong())
        case 7: return post((0..<random(below: 2_000)).map { _ in UInt8(random(below: 256)) }, gzip: true)
        case 8: return post(bomb(), gzip: true)
        case 9: return chunked()
        case 10: return rest()
        default: return heads()
        }
    }

    private func post(_ body: [UInt8], gzip: Bool = false) -> [UInt8] {
        let encoding = gzip ? "Content-Encoding: gzip\r\n" : ""
        let head = "POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\(encoding)"
        return Array((head + "Content-Length: \(body.count)\r\n\r\n").utf8) + body
    }

    private var honest: [UInt8] {
        let change = WholeServerTests.create(
            turn, entity: "board", id: "h\(turn)", fields: #"{"name":{"new":"x"},"prefs":{"new":{"a":[1,2.5,null]}}}"#)
        return Array(WholeServerTests.request(device: "hostile", changes: [change]).utf8)
    }

    /// An honest request with a few bytes changed, taken out, put in or cut off.
    private mutating func mutated() -> [UInt8] {
        var bytes = honest
        for _ in 0...random(below: 6) {
            let place = random(below: max(1, bytes.count))
            switch random(below: 5) {
            case 0: bytes[place] = UInt8(random(below: 256))
            case 1: bytes.remove(at: place)
            case 2: bytes.insert(contentsOf: Array(#"{}[],:"\u0000"#.utf8).shuffled(), at: place)
            case 3: bytes.replaceSubrange(place..., with: [])
            default: bytes.insert(contentsOf: bytes[place...].prefix(40), at: place)
            }
            if bytes.isEmpty { return [0x7b] }
        }
        return bytes
    }

    private mutating func wide() -> [UInt8] {
        let members = (0..<(1 + random(below: 800))).map { #""k\#($0)":\#(random(below: 2) == 0 ? "[]" : "1e9")"# }
        let changes = (0..<random(below: 40)).map { #"{"changeID":"\#($0)"}"# }
        return Array(
            (#"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":["#
                + changes.joined(separator: ",") + "]," + members.joined(separator: ",") + "}").utf8)
    }

    /// Every member with a value of another kind.
    private mutating func wrong() -> [UInt8] {
        let strange = [
            "null", "-1", "1e400", "99999999999999999999", "\"\"", "\"\\ud800\"", "{}", "[]", "true", "[[[]]]",
            #""a' OR 1=1 --""#, "\"" + String(repeating: "x", count: random(below: 4_000)) + "\"",
        ]
        let names = [
            "protocol", "cycleID", "deviceID", "lastSyncVersion", "scopes", "settled", "limit", "order", "dataset",
            "epoch", "fullPass", "checksum", "dirtyRecords",
        ]
        let inner = [
            "changeID", "sequence", "entity", "id", "operation", "stamp", "baseVersion", "transaction", "fields",
            "deviceID", "schemaVersion", "intent",
        ]
        var members = names.map { name -> String in
            let value =
                switch name {
                case "protocol": "1"
                case "cycleID", "deviceID": "\"d\""
                case "lastSyncVersion": "0"
                default: "null"
                }
            return #""\#(name)":\#(value)"#
        }
        let change = inner.map { #""\#($0)":\#(strange[random(below: strange.count)])"# }.joined(separator: ",")
        members[12] = #""dirtyRecords":[{\#(change)}]"#
        let place = random(below: 14)
        if place < 12 { members[place] = #""\#(names[place])":\#(strange[random(below: strange.count)])"# }
        return Array("{\(members.joined(separator: ","))}".utf8)
    }

    /// Some hundred bytes that would be 64 MiB.
    private mutating func bomb() -> [UInt8] {
        let layer = Gzip.deflate([UInt8](repeating: UInt8(ascii: " "), count: 9 << 20)) ?? []
        return random(below: 2) == 0 ? layer : Array(layer.prefix(random(below: layer.count)))
    }

    private mutating func chunked() -> [UInt8] {
        let head =
            "POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        let sizes = ["0", "ffffffffffffffff", "-1", "5;ext=1", "zz", "a\r\n", "00000000005"]
        let chunks = (0..<random(below: 20)).map { _ in "\(sizes[random(below: sizes.count)])\r\n{\"a\":\r\n" }
        return Array((head + chunks.joined()).utf8)
    }

    private mutating func rest() -> [UInt8] {
        let paths = [
            "/1/boards", "/1/boards/../../etc/passwd", "/1/%00/x", "/1/boards/x?since=-1&limit=0&after=%ff", "/1//",
            "/1/cards/a/checklists/b", "/1/boards?fields=" + String(repeating: "a,", count: 500), "*", "/%", "//x/y",
        ]
        let methods = ["GET", "PUT", "POST", "DELETE", "PATCH", "TRACE", "CONNECT", "BREW"]
        let body = mutated()
        let head = """
            \(methods[random(below: methods.count)]) \(paths[random(below: paths.count)]) HTTP/1.1\r
            Host: x\r
            Content-Type: application/json\r
            If-Match: \("\"")\(random(below: 9))\r
            Idempotency-Key: k\(random(below: 5))\r
            Content-Length: \(body.count)\r
            \r

            """
        return Array(head.utf8) + body
    }

    private mutating func heads() -> [UInt8] {
        let fields = (0..<random(below: 200)).map {
            "X-\($0): \(String(repeating: "v", count: random(below: 600)))\r\n"
        }
        let lines = [
            "GET /health HTTP/1.1", "GET /health HTTP/2.0", "\u{0}\u{1}", "POST /api/sync", "GET  / HTTP/1.1 x",
        ]
        return Array((lines[random(below: lines.count)] + "\r\n" + fields.joined() + "\r\n").utf8)
    }
}
