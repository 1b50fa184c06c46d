import SyncCore
import Testing

@testable import SyncServer

@Suite("Pages that are read ahead")
struct AheadTests {
    /// Counts the statements of a service.
    private final class Count: @unchecked Sendable {
        // Touched by the service's calls alone, which take turns.
        var statements = 0
    }

    private func counted(_ server: TestServer) throws -> Count {
        let count = Count()
        try server.service.onStatement { count.statements += 1 }
        return count
    }

    private func boards(_ count: Int, _ server: TestServer) throws {
        try server.sync("d", (1...count).map { server.create("k\($0)", Int64($0), "board", "b\($0)") })
    }

    @Test("a page that was read ahead is given without a look at the file, and is what it would have been")
    func given() throws {
        let server = try TestServer()
        try boards(9, server)
        #expect(!server.service.expectsNextPage)
        #expect(try server.sync("e", from: 0, ["limit": 4])["hasMore"] == true)
        #expect(server.service.expectsNextPage)
        #expect(server.service.readAhead())
        #expect(!server.service.readAhead(), "one page, once")
        let count = try counted(server)
        let page = try server.sync("e", from: 4, ["limit": 4])
        #expect(count.statements == 0)
        #expect(page.records.compactMap { $0["version"].int } == [5, 6, 7, 8])
        #expect(try server.sync("e", from: 4, ["limit": 4]).records == page.records, "asked twice, it is read again")
        #expect(count.statements > 0)
    }

    @Test("packed, it is given by the call that never waits")
    func packed() throws {
        let server = try TestServer()
        try boards(9, server)
        try server.sync("e", from: 0, ["limit": 4])
        let body = Array(
            #"{"protocol":1,"cycleID":"c","deviceID":"e","lastSyncVersion":4,"limit":4,"dirtyRecords":[]}"#.utf8)
        server.service.readAhead()
        #expect(server.service.syncFromMemory(account: "a", body: body) == nil, "whoever is to pack it may not wait")
        try server.sync("e", from: 0, ["limit": 4])
        server.service.readAhead { Array($0.reversed()) }
        let reply = try #require(server.service.syncFromMemory(account: "a", body: body))
        #expect(reply.tail?.packed == reply.tail.map { Array($0.bytes.reversed()) })
        #expect(try Answer(reply).records.count == 4)
        #expect(reply.body == server.service.sync(account: "a", body: body).body)
    }

    /// What may happen between a page and the next, and whether what was read ahead is still given.
    enum Meanwhile: String, CaseIterable {
        case nothing, otherAccount, otherDevice, idleSync
        case edit, deleted, loser, rest, forgotten, settled, otherLimit, otherPlace, scoped, changes, late, clockBack,
            restart

        var isKept: Bool {
            switch self {
            case .nothing, .otherAccount, .otherDevice, .idleSync: true
            default: false
            }
        }
    }

    @Test("I5 whatever happens between two pages, the second is what the store has then", arguments: Meanwhile.allCases)
    func meanwhile(_ what: Meanwhile) throws {
        let server = try TestServer { $0.retention.tombstones = 1_000 }
        try boards(9, server)
        try server.sync("d", [server.delete("k10", 10, "board", "b2", at: 5)])
        try server.sync("e", from: 0, ["limit": 3])
        #expect(server.service.readAhead())
        var (more, checkpoint, changes): ([String: FieldValue], Int64, [FieldValue]) = (["limit": 3], 4, [])
        switch what {
        case .nothing: break
        case .otherAccount:
            server.account = "b"
            try boards(1, server)
            server.account = "a"
        case .otherDevice: try server.sync("f", from: 0, ["limit": 3])
        case .idleSync: try server.sync("f", from: 10)
        case .edit: try server.sync("d", [server.update("k11", 11, "board", "b5", ["name": (.null, "x")], at: 9)])
        case .deleted: try server.sync("d", [server.delete("k11", 11, "board", "b6", at: 9)])
        case .loser:
            // It changes no version, and may change the record's highest stamp.
            try server.sync("d", [server.update("k11", 11, "board", "b2", ["name": (.null, "x")], at: 1)])
        case .rest:
            let request = RESTRequest(
                method: "PUT", path: "/1/boards/b5", headers: [.init("Content-Type", "application/json")],
                body: Array(#"{"name":"y"}"#.utf8))
            #expect(server.service.rest(account: "a", request: request).status == 200)
        case .forgotten:
            server.clock.advance(by: 2_000)
            try server.service.prune()
            more["fullPass"] = true
        case .settled: more["settled"] = 3
        case .otherLimit: more["limit"] = 4
        case .otherPlace: checkpoint = 5
        case .scoped: more["scopes"] = ["board:b5": 4]
        case .changes: changes = [server.create("k1", 1, "board", "b99")]
        case .late: server.clock.advance(by: 10_001)
        case .clockBack: server.clock.advance(by: -5)
        case .restart: try server.restart()
        }
        let count = try counted(server)
        let page = try server.sync("e", changes, from: checkpoint, more)
        #expect((count.statements == 0) == what.isKept)
        // Another device is told the same, by the file.
        let read = try server.sync("z", from: checkpoint, more.filter { $0.key != "settled" })
        #expect(page.records == read.records || what == .changes)
        #expect(page["currentSyncVersion"] == read["currentSyncVersion"] || what == .changes)
        #expect(page["stamp"] == read["stamp"] || what == .changes)
    }

    @Test(
        "I7 whatever is asked in whatever order, the bytes are those of a server that never reads ahead",
        arguments: 1...12)
    func histories(seed: UInt64) throws {
        let (plain, ahead) = (try TwinServer(seed: seed), try TwinServer(seed: seed))
        let count = try counted(ahead.server)
        var dice = Dice(seed: seed)
        var (hits, restarts) = (0, 0)
        for step in 0..<600 {
            switch dice.below(100) {
            case 0:
                for twin in [plain, ahead] {
                    twin.server.configuration.isRestored = step % 2 == 0
                    try twin.server.restart()
                }
                try ahead.server.service.onStatement { count.statements += 1 }
                restarts += 1
            case 1...4:
                let pause = Int64(dice.below(1_500))
                for twin in [plain, ahead] {
                    twin.server.clock.advance(by: pause)
                    try twin.server.service.prune()
                }
            default:
                let call = try ahead.call(&dice, step)
                let one = plain.server.service.sync(account: call.account, body: call.body)
                count.statements = 0
                let other =
                    dice.below(2) == 0
                    ? ahead.server.service.syncFromMemory(account: call.account, body: call.body) : nil
                let two = other ?? ahead.server.service.sync(account: call.account, body: call.body)
                #expect(one.status == two.status && one.body == two.body, "step \(step) of seed \(seed)")
                if two.status == 200, count.statements == 0, (two.tail?.bytes.count ?? 0) > 0 { hits += 1 }
                try ahead.learn(call, from: two)
            }
            if dice.below(4) > 0 { ahead.server.service.readAhead { dice.below(2) == 0 ? $0 : nil } }
        }
        #expect(hits > 20, "the case that is meant came up \(hits) times")
    }

    // MARK: - The book

    private func page(_ bytes: Int) throws -> Page {
        let server = try TestServer()
        try server.sync(
            "d", [server.create("k", 1, "board", "b", ["name": .string(String(repeating: "x", count: bytes))])])
        return try server.service.inStore { state, _ in
            let account = try #require(state.store.known("a"))
            return try PageReader(store: state.store, account: account, limits: ServerLimits(), known: [])
                .page(after: 0, limit: 1)
        }
    }

    private func question(_ checkpoint: Int64, _ scopes: [String]? = nil) -> PagesAhead.Question {
        PagesAhead.Question(
            checkpoint: checkpoint, scopes: scopes?.map { SyncRequest.Scope(name: $0, checkpoint: 1) }, limit: 5)
    }

    @Test("I12 pages that nobody comes for have a bound together; the oldest goes first, and all go with time")
    func bounds() throws {
        let large = try page(1_000)
        let server = try TestServer()
        try server.sync("d", [])
        let moment = try server.service.inStore { state, _ in
            state.store.moment(of: try #require(state.store.known("a")))
        }
        var book = PagesAhead(mostBytes: 5_000)
        func reader(_ number: Int) -> PagesAhead.Reader { PagesAhead.Reader(account: 1, device: "d\(number)") }
        for number in 0..<20 {
            book.expect(question(4), of: "a", by: reader(number), now: Int64(number))
            let wish = try #require(book.nextWish())
            book.put(large, at: moment, for: wish)
            book.put(packed: large.tail, for: wish)
            #expect(book.heldBytes <= 5_000)
        }
        #expect(book.page(for: question(4), of: reader(17), at: moment, now: 20) == nil)
        #expect(book.page(for: question(4), of: reader(19), at: moment, now: 20)?.tail == large.tail)
        book.expect(question(4), of: "a", by: reader(19), now: 30)
        #expect(book.page(for: question(4), of: reader(19), at: moment, now: 30) == nil, "one for each device")
        book.forgetOld(now: 10_031)
        #expect(book.heldBytes == 0)
        #expect(!book.isWanted)
        for number in 0..<1_000 { book.expect(question(4), of: "a", by: reader(number), now: 0) }
        #expect(book.heldBytes <= 5_000)
        var endless = PagesAhead()
        for number in 0..<1_000 { endless.expect(question(4), of: "a", by: reader(number), now: 0) }
        endless.forget(reader(999))
        var left = 0
        while let wish = endless.nextWish() {
            endless.drop(wish)
            left += 1
        }
        #expect(left == PagesAhead.mostPages - 1)
    }

    @Test("scopes that differ only in how their accents are composed are two questions")
    func composed() {
        let (one, other) = ("board:\u{e9}", "board:e\u{301}")
        #expect(one == other)
        #expect(!question(0, [one]).isSame(as: question(0, [other])))
        #expect(question(0, [one]).isSame(as: question(0, [one])))
        #expect(question(0, [one]).next(after: 7).scopes?.first?.checkpoint == 7)
        #expect(!question(0, [one]).isSame(as: question(0, nil)))
    }
}

/// Chance from a seed.
struct Dice {
    private let chance: TestRandomness

    init(seed: UInt64) { chance = TestRandomness(seed: seed) }

    mutating func below(_ end: Int) -> Int { Int(chance.next() % UInt64(end)) }
}

/// A server, and what the devices that ask it know.
private final class TwinServer {
    struct Call {
        var account: String
        var device: Int
        var place: String
        var body: [UInt8]
    }

    let server: TestServer
    private var sequences: [String: Int64] = [:]
    /// Where each device stands, by what it asks for.
    private var checkpoints: [String: Int64] = [:]
    private var epochs: [String: FieldValue] = [:]

    init(seed: UInt64) throws {
        server = try TestServer(seed: seed) {
            $0.retention.tombstones = 2_000
            $0.retention.interval = 500
        }
    }

    /// Mostly the next page of a pull; else changes, another limit, other roots, another place.
    func call(_ dice: inout Dice, _ step: Int) throws -> Call {
        let account = dice.below(4) == 0 ? "b" : "a"
        let device = dice.below(3)
        let name = "d\(device)"
        let scopes: [String]? = [nil, nil, ["board:b1"], ["board:b1", "board:b2"]][device == 2 ? dice.below(4) : 0]
        let place = "\(account) \(name) \(scopes?.joined(separator: " ") ?? "")"
        if dice.below(12) == 0 { checkpoints[place] = nil }
        let checkpoint = checkpoints[place] ?? 0
        var request: [String: FieldValue] = [
            "protocol": 1, "cycleID": .string("c\(step)"), "deviceID": .string(name),
            "lastSyncVersion": .int(checkpoint),
            "limit": .int(dice.below(8) == 0 ? 2 : 3), "dirtyRecords": [],
        ]
        if let scopes {
            request["scopes"] = .object(
                Dictionary(uniqueKeysWithValues: scopes.map { ($0, FieldValue.int(checkpoint)) }))
        }
        if dice.below(6) == 0 { request["fullPass"] = true }
        if dice.below(10) == 0 { request["checksum"] = true }
        if dice.below(20) == 0 { request["epoch"] = epochs[account] }
        if dice.below(20) == 0 { request["settled"] = .int(sequences["\(account) \(name)"] ?? 0) }
        if dice.below(4) == 0 {
            request["dirtyRecords"] = .array((0...dice.below(4)).map { _ in change(&dice, "\(account) \(name)") })
        }
        return Call(account: account, device: device, place: place, body: try FieldValue.object(request).json())
    }

    private func change(_ dice: inout Dice, _ device: String) -> FieldValue {
        let sequence = (sequences[device] ?? 0) + 1
        sequences[device] = sequence
        let key = "\(device.replacing(" ", with: "-"))-\(sequence)"
        let (board, list) = ("b\(dice.below(4))", "l\(dice.below(10))")
        let at = Int64(dice.below(2_000)) - 1_000
        switch dice.below(6) {
        case 0: return server.create(key, sequence, "board", board, ["name": .string(key)], at: at)
        case 1, 2: return server.create(key, sequence, "list", list, ["idBoard": .string(board)], at: at)
        case 3: return server.update(key, sequence, "list", list, ["idBoard": (.null, .string(board))], at: at)
        case 4: return server.update(key, sequence, "board", board, ["name": (.null, .string(key))], at: at)
        default:
            return dice.below(2) == 0
                ? server.delete(key, sequence, "list", list, at: at)
                : server.delete(key, sequence, "board", board, at: at)
        }
    }

    func learn(_ call: Call, from reply: ServerReply) throws {
        let answer = try Answer(reply)
        guard reply.status == 200 else {
            checkpoints[call.place] = nil
            return
        }
        epochs[call.account] = answer["epoch"]
        checkpoints[call.place] = answer["hasMore"] == true || answer.version % 3 > 0 ? answer.version : 0
    }
}
