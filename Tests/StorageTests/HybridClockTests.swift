import GRDB
import SyncCore
import SyncTesting
import Testing

@testable import Storage

/// Stamps of local writes: hybrid logical time over a clock of the device's that may be wrong.
@Suite struct HybridClockTests {
    private static let hour: Int64 = 3_600_000

    /// A write through the store, which tells the triggers the time.
    private func add(_ f: Fixture, _ id: String) async throws {
        try await f.store.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES (?, 'A')", arguments: [id]) }
    }

    @Test("Stamps grow within a millisecond, across a restart, and when the wall clock is set back a year")
    func monotonic() async throws {
        let (file, wall) = (try TestFile(), ManualWallClock())
        var f = try Fixture(file: file, wall: wall)
        for number in 0..<3 { try await add(f, "b-\(number)") }
        try await f.store.close()
        wall.advance(milliseconds: -365 * 24 * Self.hour)
        f = try Fixture(file: file, wall: wall)
        for number in 3..<6 { try await add(f, "b-\(number)") }
        wall.advance(milliseconds: -Self.hour)
        try await add(f, "b-6")
        let stamps = try f.changes().map(\.stamp)
        #expect(stamps.count == 7)
        for (earlier, later) in zip(stamps, stamps.dropFirst()) { #expect(earlier < later) }
        #expect(Set(stamps.map(\.milliseconds)) == [UInt64(ManualWallClock.usualStart)])
    }

    @Test("DAT-04 what was never sent moves by the measured offset, order kept; a difference of a second moves nothing")
    func shifted() async throws {
        let wall = ManualWallClock()
        let f = try Fixture(wall: wall)
        // Two in one millisecond, one later, one after the clock was set back by a minute.
        for id in ["b-0", "b-1"] { try await add(f, id) }
        wall.advance(milliseconds: 90_000)
        try await add(f, "b-2")
        wall.advance(milliseconds: -60_000)
        try await add(f, "b-3")
        let before = try f.changes().map(\.stamp)
        try await f.store.setClockOffset(milliseconds: 1_000)
        #expect(try f.changes().map(\.stamp) == before)
        #expect(try await f.store.events().isEmpty)
        try await f.store.setClockOffset(milliseconds: -Self.hour)
        let once = try f.changes().map(\.stamp)
        #expect(once.map(\.milliseconds) == before.map { $0.milliseconds - UInt64(Self.hour) })
        for (earlier, later) in zip(once, once.dropFirst()) { #expect(earlier < later) }
        #expect(try await f.store.events().map(\.kind) == ["clockShifted"])
        // One that is stamped with the known offset is right, and moves by what is new of the next one alone.
        try await add(f, "b-4")
        let right = try #require(try f.changes().last).stamp
        #expect(right > once[3])
        #expect(right.milliseconds <= once[2].milliseconds + 1)
        try await f.store.setClockOffset(milliseconds: -Self.hour)
        #expect(try f.changes().map(\.stamp) == once + [right])
        try await f.store.setClockOffset(milliseconds: -Self.hour - 5_000)
        #expect(
            try f.changes().map(\.stamp.milliseconds) == (once + [right]).map { $0.milliseconds - 5_000 })
    }

    @Test("DAT-04 a write after the clock was set back, stamped above an earlier one, goes to its time")
    func heldUp() async throws {
        let wall = ManualWallClock()
        let f = try Fixture(wall: wall)
        try await add(f, "b-0")
        _ = try await f.claim()
        wall.advance(milliseconds: 5_000 - 300_000)
        try await add(f, "b-1")
        try await add(f, "b-2")
        let before = try f.changes().map(\.stamp)
        #expect(before[1] > before[0])
        try await f.store.setClockOffset(milliseconds: 300_000)
        let after = try f.changes().map(\.stamp)
        #expect(after[0] == before[0])
        #expect(after[1].milliseconds == UInt64(ManualWallClock.usualStart + 5_000))
        #expect(after[2] > after[1] && after[2].milliseconds == after[1].milliseconds)
    }

    @Test("DAT-04 what a handler found, and the inverse of what is taken back, are stamped by the server's time, too")
    func madeByTheEngine() async throws {
        let wall = ManualWallClock()
        let f = try Fixture(wall: wall)
        let now = UInt64(ManualWallClock.usualStart - Self.hour)
        try await f.store.setClockOffset(milliseconds: -Self.hour)
        try await find(f, "b-0")
        try await add(f, "b-1")
        let claim = try await f.claim()
        for key in claim.keys { try await f.settle((key, .unanswered)) }
        guard case .inverse = try await f.store.cancel(claim.keys[1]) else {
            Issue.record("there is no inverse")
            return
        }
        try await find(f, "b-2")
        #expect(try f.changes().map(\.stamp.milliseconds) == [now, now, now, now])
        // It moves by what is new of a later measurement, as captured ones do; the inverse stays above what it takes back.
        try await f.store.setClockOffset(milliseconds: -Self.hour - 5_000)
        #expect(try f.changes().map(\.stamp.milliseconds) == [now, now, now, now - 5_000])
    }

    /// What an app's handler found.
    private func find(_ f: Fixture, _ id: String) async throws {
        let name = FieldDelta(old: nil, new: "A")
        _ = try await f.store.recordNew([
            FoundChange(record: RecordKey("board", id), operation: .create, fields: ["name": name])
        ])
    }

    @Test("DAT-04 a shift never takes a write to or below what had been seen when it was made, nor moves what was sent")
    func floors() async throws {
        let wall = ManualWallClock()
        let f = try Fixture(wall: wall)
        try await add(f, "b-0")
        _ = try await f.claim()
        let seen = Stamp(milliseconds: UInt64(wall.nowMilliseconds) + 2_000, counter: 3)
        _ = try await f.store.apply(PageSlice(records: [], from: 0, checkpoint: 1, epoch: Fixture.epoch, stamp: seen))
        try await add(f, "b-1")
        let before = try f.changes().map(\.stamp)
        try await f.store.setClockOffset(milliseconds: -Self.hour)
        let after = try f.changes().map(\.stamp)
        #expect(after[0] == before[0])
        #expect(after[1] == seen.successor)
    }

    @Test("DAT-04 a draft's stamp moves as any other's, and does not drag the clock along")
    func draft() async throws {
        let wall = ManualWallClock()
        let f = try Fixture(wall: wall)
        let right = UInt64(ManualWallClock.usualStart)
        wall.advance(milliseconds: Self.hour)
        try await add(f, "b-1")
        try await f.store.hold([RecordKey("board", "b-1")])
        try await add(f, "b-2")
        try await f.store.setClockOffset(milliseconds: -Self.hour)
        #expect(try f.changes().map(\.stamp.milliseconds) == [right, right])
        wall.advance(milliseconds: 5_000)
        try await add(f, "b-3")
        #expect(try f.changes().last?.stamp.milliseconds == right + 5_000)
        try await f.store.release([RecordKey("board", "b-1")])
        #expect(try await f.claim().changes.map(\.change.stamp.milliseconds) == [right, right, right + 5_000])
    }

    @Test("DAT-04 what waits for a refused create was never sent, and moves; the create keeps its stamp")
    func waiting() async throws {
        let wall = ManualWallClock()
        let f = try Fixture(wall: wall)
        try await add(f, "b-1")
        let refused = try await f.claim().keys[0]
        try await f.settle((refused, .setAside(SetAsideReason(code: "invalid", message: "no"), staysUncertain: false)))
        wall.advance(milliseconds: Self.hour)
        try await f.store.write {
            try $0.execute(sql: "INSERT INTO list (id, name, idBoard) VALUES ('l-1', 'L', 'b-1')")
        }
        _ = try await f.claim()
        #expect(try await f.store.summary().blocked == 1)
        let before = try f.changes().map(\.stamp)
        try await f.store.setClockOffset(milliseconds: -Self.hour)
        let after = try f.changes().map(\.stamp)
        #expect(after[0] == before[0])
        #expect(after[1].milliseconds == UInt64(ManualWallClock.usualStart))
    }
}
