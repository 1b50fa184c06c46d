import BoardsModel
import Foundation
import NIOConcurrencyHelpers
import SyncServer
import Testing

@testable import BoardsServer

@Suite("Whose turn it is")
struct TurnsTests {
    private func taken(_ turns: inout Turns<String>) -> [String] {
        var taken: [String] = []
        while let next = turns.removeFirst() { taken.append(next.waiting) }
        return taken
    }

    @Test("SEC-22 accounts take turns; within one, what came first goes first")
    func order() {
        var turns = Turns<String>()
        for name in ["a1", "a2", "a3", "b1", "c1", "a4", "b2"] { turns.append(name, of: String(name.prefix(1))) }
        turns.append("health", of: nil)
        #expect(turns.count == 8 && turns.first == "a1")
        #expect(taken(&turns) == ["a1", "b1", "c1", "health", "a2", "b2", "a3", "a4"])
        #expect(turns.isEmpty && turns.first == nil)
    }

    @Test("what had no turn is put back before all others, in its order")
    func puttingBack() {
        var turns = Turns<String>()
        for name in ["a1", "a2", "a3", "b1", "c1"] { turns.append(name, of: String(name.prefix(1))) }
        let all = (0..<4).compactMap { _ in turns.removeFirst() }
        #expect(all.map(\.waiting) == ["a1", "b1", "c1", "a2"])
        turns.append("d1", of: "d")
        turns.putBack(Array(all[1...]))
        #expect(turns.count == 5)
        #expect(taken(&turns) == ["b1", "c1", "a2", "d1", "a3"])
    }

    @Test("SEC-22 while one account floods the store, another waits for what is in work, and one turn more")
    func flood() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "turns-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (isFree, decided) = (ConditionLock(value: false), NIOLockedValueBox<[String]>([]))
        let hasBegun = NIOLockedValueBox(false)
        var configuration = BoardsStore.configuration(.testing)
        configuration.limits.turnRecords = 1
        configuration.policy = { account, _ in
            hasBegun.withLockedValue { $0 = true }
            isFree.lock(whenValue: true)
            isFree.unlock()
            decided.withLockedValue { $0.append(account) }
            return .allow
        }
        let service = try SyncService(path: folder.appending(path: "db").path, configuration: configuration)
        let backend = StoreBackend(service: service)
        try await withThrowingTaskGroup(of: Int.self) { group in
            func send(_ account: String, _ number: Int) {
                let body = """
                    {"protocol":1,"cycleID":"c","deviceID":"d\(number)","lastSyncVersion":0,"dirtyRecords":[
                    {"changeID":"k","sequence":1,"entity":"board","id":"b\(number)","operation":"create",
                    "schemaVersion":1,"stamp":"0195a3f2c4d1-0000","fields":{"name":{"new":"x"}}}]}
                    """
                group.addTask { try await backend.sync(account: account, body: Array(body.utf8)).status }
            }
            send("noisy", 0)
            while !hasBegun.withLockedValue({ $0 }) { await Task.yield() }
            for number in 1..<20 { send("noisy", number) }
            while backend.waitingCount < 19 { await Task.yield() }
            send("quiet", 20)
            group.addTask {
                let get = RESTRequest(method: "GET", path: "/1/boards", headers: [], body: [])
                return try await backend.rest(account: "third", request: get).status
            }
            while backend.waitingCount < 21 { await Task.yield() }
            isFree.lock()
            isFree.unlock(withValue: true)
            for try await status in group { #expect(status == 200) }
        }
        let order = decided.withLockedValue { $0 }
        #expect(order.count == 21)
        #expect(try #require(order.firstIndex(of: "quiet")) <= 2, "\(order)")
        try await backend.close()
    }
}
