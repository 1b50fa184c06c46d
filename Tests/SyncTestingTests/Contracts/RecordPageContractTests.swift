import SyncCore
import SyncTesting
import Testing

@Suite("The pages of the package keep the contract")
struct RecordPageContractTests {
    @Test("a page in memory", arguments: RecordPageContract.rules.indices)
    func array(rule: Int) async throws {
        try await RecordPageContract.rules[rule].check { ArrayPage($0) }
    }

    @Test("no rule passes whatever a page does")
    func brokenPages() async throws {
        let found = await broken(RecordPageContract.rules, by: Broken.Bug.allCases) { bug in
            { (records: [ServerRecord]) async throws -> any RecordPage in Broken(records: records, bug: bug) }
        }
        #expect(found == RecordPageContract.rules.map(\.name))
    }
}

/// A page with one mistake.
private struct Broken: RecordPage {
    enum Bug: CaseIterable { case neverEnds, allAtOnce, stops, losesPresence }
    let records: [ServerRecord]
    let bug: Bug
    private let inner: ArrayPage

    init(records: [ServerRecord], bug: Bug) {
        self.records = records
        self.bug = bug
        var inner = records
        if bug == .losesPresence { for place in inner.indices { inner[place].presence = .live } }
        self.inner = ArrayPage(inner)
    }

    var count: Int { bug == .neverEnds ? records.count + 1 : records.count }

    func next(maxRecords: Int, maxBytes: Int) throws(ExchangeFailure) -> [ServerRecord] {
        switch bug {
        case .neverEnds, .losesPresence: try inner.next(maxRecords: maxRecords, maxBytes: maxBytes)
        case .allAtOnce: try inner.next(maxRecords: .max, maxBytes: .max)
        case .stops: maxBytes < 500 || maxRecords < 1 ? [] : try inner.next(maxRecords: maxRecords, maxBytes: maxBytes)
        }
    }
}
