import Foundation
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing

/// Notes in files of their own: what an app may have that keeps its texts out of the database.
///
/// What it finds carries the text's length only; the text itself is read when it goes out for the first time.
private final class FileNotes: Syncable, @unchecked Sendable {
    // Sendable: `unreadable`, `built` and `found` are used under `lock` alone; files are written whole.
    let schema: EntitySchema
    private let folder: URL
    private let lock = NSLock()
    private var unreadable: Set<String> = []
    private var built: [String] = []
    /// What was told to the queue before: another text of it is an update.
    private var found: Set<String> = []

    init(_ entity: String) throws {
        schema = try #require(Device.parsed[entity])
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("notes-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    struct Unreadable: Error {}

    func end() throws { try FileManager.default.removeItem(at: folder) }
    func write(_ id: String, _ text: String) throws { try Data(text.utf8).write(to: file(id)) }
    func read(_ id: String) -> String? {
        FileManager.default.contents(atPath: file(id).path).map { String(decoding: $0, as: UTF8.self) }
    }
    func set(unreadable ids: Set<String>) { lock.withLock { unreadable = ids } }
    /// The changes that were built, in order.
    var builds: [String] { lock.withLock { built } }

    func collectDirty() async throws -> [FoundChange] {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".note") }
        return names.sorted().compactMap { name in
            let id = String(name.dropLast(5))
            let (text, synced) = (read(id) ?? "", FileManager.default.contents(atPath: mark(id).path))
            guard synced != Data("\(text.utf8.count)".utf8) else { return nil }
            let isNew = lock.withLock { found.insert(id).inserted } && synced == nil
            return FoundChange(
                record: RecordKey(schema.name, id), operation: isNew ? .create : .update,
                fields: ["name": FieldDelta(old: nil, new: .string("\(text.utf8.count)"))])
        }
    }

    func buildPayload(_ change: Change) throws -> Change {
        let id = change.record.id
        if lock.withLock({ unreadable.contains(id) }) { throw Unreadable() }
        guard let text = read(id) else { return change }
        lock.withLock { built.append(change.id) }
        var payload = change
        payload.fields["desc"] = FieldDelta(old: nil, new: .string(text))
        return payload
    }

    func applyResponse(_ record: ServerRecord) async throws {
        guard case .string(let text)? = record.fields["desc"] else { return }
        try write(record.key.id, text)
        try Data("\(text.utf8.count)".utf8).write(to: mark(record.key.id))
    }

    func markSynced(_ changes: [Change]) async throws {
        for change in changes {
            if case .string(let length)? = change.fields["name"]?.new {
                try Data(length.utf8).write(to: mark(change.record.id))
            }
        }
    }

    private func file(_ id: String) -> URL { folder.appendingPathComponent("\(id).note") }
    private func mark(_ id: String) -> URL { folder.appendingPathComponent("\(id).synced") }
}

@Suite struct FileHandlerTests {
    private func engine(
        _ stage: Stage, _ device: Device, _ exchange: any Exchange, _ handlers: [any Syncable], seed: UInt64 = 5
    ) -> SyncEngine {
        SyncEngine(
            store: device.store, exchange: exchange, handlers: handlers, wallClock: stage.wall, clock: stage.clock,
            randomness: SeededRandomness(seed: seed), ids: SeededIDs(seed: seed))
    }

    private func texts(_ changes: [Change]) -> [String] {
        changes.compactMap { if case .string(let text)? = $0.fields["desc"]?.new { text } else { nil } }
    }

    @Test("Texts in files go out when they are sent and come down as files; the queue never held them before")
    func files() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let (a, b) = (try stage.device(server), try stage.device(server, seed: 2))
            let (mine, theirs) = (try FileNotes("board"), try FileNotes("board"))
            let (first, second) = (engine(stage, a, server, [mine]), engine(stage, b, server, [theirs], seed: 6))
            try mine.write("n-1", "carrots, peas")
            try mine.write("n-2", "bees")
            #expect(try await first.sync(for: .seconds(30)).isInStep)
            #expect(try await second.sync(for: .seconds(30)).isInStep)
            #expect(theirs.read("n-1") == "carrots, peas")
            #expect(theirs.read("n-2") == "bees")
            try theirs.write("n-1", "carrots, peas, beans")
            #expect(try await second.sync(for: .seconds(30)).report.acknowledged == 1)
            _ = try await first.sync(for: .seconds(30))
            #expect(mine.read("n-1") == "carrots, peas, beans")
            #expect(try await first.sync(for: .seconds(30)).report.sent == 0)
            for device in [a, b] { try await device.end() }
            for notes in [mine, theirs] { try notes.end() }
        }
    }

    @Test(
        "QUE-10 what was built is kept before it leaves: a repeat under its key is the same, whatever the file says by then"
    )
    func builtOnce() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let port = Port(server, clock: stage.clock)
            let (device, notes) = (try stage.device(port), try FileNotes("board"))
            let before = engine(stage, device, port, [notes])
            _ = await before.syncNow()
            port.forget()
            try notes.write("n-1", "one")
            port.next(.fail(.timedOut))
            _ = await before.syncNow()
            try notes.write("n-1", "something else")
            // The program was ended meanwhile.
            let after = engine(stage, device, port, [notes], seed: 9)
            #expect(try await after.sync(for: .seconds(60)).isInStep)
            let sent = port.requests.flatMap(\.changes)
            let key = try #require(sent.first?.id)
            #expect(Set(texts(sent.filter { $0.id == key })) == ["one"])
            #expect(sent.filter { $0.id == key }.count == 2)
            #expect(texts(sent).last == "something else")
            #expect(notes.builds.filter { $0 == key }.count == 1)
            let left = try await device.store.payloads(of: sent.map(\.id))
            #expect(left.isEmpty, "what is decided is dropped")
            try await device.end()
            try notes.end()
        }
    }

    @Test("QUE-10 what was sent before its handler was there is repeated as it was, not built")
    func sentBefore() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let port = Port(server, clock: stage.clock)
            let (device, notes) = (try stage.device(port), try FileNotes("board"))
            _ = await device.engine.syncNow()
            port.forget()
            try await device.addBoard("n-1", "3")
            port.next(.lose)
            _ = await device.engine.syncNow()
            // An update of the app brings the handler along.
            try notes.write("n-1", "one")
            _ = try await engine(stage, device, port, [notes]).sync(for: .seconds(60))
            let key = try #require(port.requests.first?.changes.first?.id)
            let sent = port.requests.flatMap(\.changes).filter { $0.id == key }
            #expect(sent.count == 2)
            #expect(Set(sent.map(\.fields)).count == 1)
            #expect(try await device.store.failures().isEmpty)
            #expect(!notes.builds.contains(key))
            try await device.end()
            try notes.end()
        }
    }

    @Test(
        "PRC-23 what cannot be built is set aside with the handler's words; the rest goes, and a retry builds it anew")
    func unbuildable() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let (device, notes) = (try stage.device(server), try FileNotes("board"))
            let engine = engine(stage, device, server, [notes])
            _ = await engine.syncNow()
            try notes.write("n-1", "one")
            try notes.write("n-2", "two")
            try await device.addBoard("b-1")
            notes.set(unreadable: ["n-1"])
            let summary = try await engine.sync(for: .seconds(30))
            #expect(summary.report.acknowledged == 2)
            #expect(summary.queue.failed == 1)
            #expect(Set(server.effects.map(\.change.record.id)) == ["n-2", "b-1"])
            let failure = try #require(try await device.store.failures().first)
            #expect(failure.reason.code == "payload")
            #expect(failure.reason.message.contains("Unreadable"))
            #expect(failure.queued.change.record.id == "n-1")
            notes.set(unreadable: [])
            _ = try await device.store.retry(failure.queued.change.id)
            #expect(try await engine.sync(for: .seconds(30)).isInStep)
            #expect(texts(server.effects.map(\.change)).contains("one"))
            try await device.end()
            try notes.end()
        }
    }
}
