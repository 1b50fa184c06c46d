import Foundation
import SyncCore
import Testing

@testable import SyncServer

@Suite("Sets of many elements")
struct LargeSetTests {
    private func tag(_ time: Int64) -> WriteTag {
        WriteTag(stamp: Stamp(milliseconds: UInt64(time), counter: 0), device: "d", sequence: time)
    }

    private func union(_ old: FieldValue, _ new: FieldValue, at time: Int64) -> IncomingChange {
        let stamp = Stamp(milliseconds: UInt64(time), counter: 0)
        return IncomingChange(
            id: "k\(time)", device: "d", sequence: time, record: RecordKey("board", "b"), operation: .update,
            stamp: stamp,
            fields: [IncomingChange.Field(name: "tags", old: old, new: new, rule: .union, stamp: stamp)])
    }

    private func state(_ count: Int64) -> RecordState {
        let all = FieldValue.array((0..<count).map(FieldValue.int))
        return RecordState(
            created: tag(1), deleted: nil, firstDeleted: nil, namedBelow: [],
            fields: FieldList([FieldState(name: "tags", written: all, at: tag(1))]))
    }

    private func processorTime() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    @Test("a union costs what it names, not what the set holds", arguments: [true, false])
    func cost(putsIn: Bool) throws {
        /// Of a set of so many elements, beside the first, which finds out what there is.
        func time(_ count: Int64) -> UInt64 {
            var state = state(count)
            _ = state.apply(union([], ["first"], at: 2))
            let began = processorTime()
            for index in Int64(0)..<200 {
                let element: FieldValue = [.int(putsIn ? -1 - index : index)]
                let ruling = state.apply(putsIn ? union([], element, at: 3 + index) : union(element, [], at: 3 + index))
                guard case .applied = ruling.kind else { return .max }
            }
            return processorTime() - began
        }
        let few = (0..<3).map { _ in time(500) }.min() ?? 0
        let many = (0..<2).map { _ in time(20_000) }.min() ?? 0
        #expect(many < 4 * few, "\(few) ns of a few, \(many) ns of many")
    }

    @Test("what the set holds in the end is what each of them would have made of it")
    func contents() {
        var state = state(10)
        var (before, expected) = (FieldValue.null, (0..<10).map { FieldValue.int($0) })
        for index in Int64(0)..<40 {
            let isIn = index % 3 != 0
            let element = FieldValue.int(index % 14)
            if isIn, !expected.contains(element) { expected.append(element) }
            if !isIn { expected.removeAll { $0 == element } }
            _ = state.apply(isIn ? union([], [element], at: 2 + index) : union([element], [], at: 2 + index))
            before = state.value(of: "tags")
        }
        guard case .array(let elements) = before else { return #expect(Bool(false), "no set") }
        #expect(Set(elements) == Set(expected) && elements.count == expected.count)
    }

    @Test("the device that sent the whole set as it is now knows it; who sent less, or more, does not")
    func echo() {
        var state = state(3)
        #expect(state.apply(union([0, 1, 2], [0, 1, 2, 3], at: 2)).isAsSent)
        #expect(!state.apply(union([], [4], at: 3)).isAsSent)
        #expect(!state.apply(union([9], [0, 1, 2, 3, 4, 5, 9], at: 4)).isAsSent)
        #expect(state.apply(union([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5], at: 5)).isAsSent)
    }

    @Test("a create that says what unions have made says what is there; one that says less is of another record")
    func create() {
        for (tags, isSame) in [([0, 1, 2, 3], true), ([3], false), ([0, 1, 2, 4], false)] as [(FieldValue, Bool)] {
            var state = state(3)
            _ = state.apply(union([], [3], at: 2))
            var create = union(.null, tags, at: 3)
            create.operation = .create
            let ruling = state.apply(create)
            #expect((ruling.kind == .applied) == isSame, "\(tags)")
        }
    }

    @Test("many unions that lose would tell the set again and again: they are too large together, not apart")
    func losing() throws {
        let server = try TestServer { $0.limits.verdictBytes = 20_000 }
        let all = FieldValue.array((0..<1_000).map(FieldValue.int))
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["tags": all])])
        let late = (0..<20).map { index in
            server.update("l\(index)", Int64(index + 1), "board", "b1", ["tags": ([0], [])], rule: "union", at: -500)
        }
        #expect(try server.send("e", late).status == 413)
        #expect(try server.sync("e", Array(late[..<4])).results.allSatisfy { $0["verdict"] == "merged" })
    }

    @Test("plain writes below the unions of a large set count as many records, even where it is dead")
    func slowWrites() throws {
        let server = try TestServer { $0.limits.followedRecords = 500 }
        let all = FieldValue.array((0..<2_000).map(FieldValue.int))
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["tags": all], at: -900)])
        try server.sync(
            "d", [server.update("k2", 2, "board", "b1", ["tags": ([], ["x"])], rule: "union", at: -100)], from: 1)
        try server.sync("d", [server.delete("k3", 3, "board", "b1")], from: 2)
        let late = (0..<20).map { index in
            server.update("l\(index)", Int64(index + 1), "board", "b1", ["tags": (.null, all)], at: Int64(index) - 800)
        }
        #expect(try server.send("e", late).status == 413)
        #expect(try server.sync("e", Array(late[..<2])).results.allSatisfy { $0["verdict"] == "merged" })
    }
}
