import SyncCore
import Testing

@Suite("PROTOCOL.md section 4 as a table")
struct FailureTableTests {
    private static let temporary: Set<Int> = [
        408, 425, 429, 499, 502, 503, 504, 520, 521, 522, 523, 524, 525, 526, 530,
    ]

    private static func expected(_ status: Int, _ target: FailureTable.Target) -> FailureClass? {
        switch status {
        case 200, 201, 204: nil
        case 511: .network
        case _ where temporary.contains(status): .temporary
        case 401: .authentication
        case 413: .tooLarge
        case 409: .temporary
        case 410: target == .exchange ? .history : .permanent
        case 412: target == .exchange ? .unknown : .conflict
        case 400...499: target == .exchange ? .unknown : .permanent
        case 500...599: .temporaryLonger
        default: .network
        }
    }

    @Test("NET-19 every status from 100 to 599 has its class, for one change and for a whole request")
    func everyStatus() {
        let table = FailureTable()
        for status in 100...599 {
            for target in FailureTable.Target.allCases {
                #expect(
                    table.classify(status: status, on: target) == Self.expected(status, target), "\(status) \(target)")
            }
        }
    }

    @Test("409 is told apart by its code, and by whether a record came with it")
    func conflicts() {
        let table = FailureTable()
        #expect(table.classify(status: 409, code: "conflict", hasRecord: true, on: .change) == .conflict)
        #expect(table.classify(status: 409, hasRecord: true, on: .change) == .conflict)
        #expect(table.classify(status: 409, code: "idTaken", hasRecord: true, on: .change) == .permanent)
        #expect(table.classify(status: 409, code: "keyInUse", on: .change) == .temporary)
        #expect(table.classify(status: 409, code: "otherDataset", on: .exchange) == .history)
        #expect(table.classify(status: 409, code: "keyInUse", on: .exchange) == .temporary)
        #expect(table.classify(status: 409, code: "somethingElse", on: .exchange) == .unknown)
        #expect(table.classify(status: 410, code: "epochChanged", on: .exchange) == .history)
    }

    @Test("NET-14 what would decide without proof is foreign")
    func foreign() {
        let table = FailureTable()
        for status in [400, 403, 404, 405, 410, 412, 422] {
            #expect(table.classify(status: status, isProved: false, on: .change) == .network)
        }
        #expect(table.classify(status: 410, isProved: false, on: .exchange) == .network)
        #expect(table.classify(status: 503, isProved: false, on: .change) == .temporary)
        #expect(table.classify(status: 413, isProved: false, on: .exchange) == .tooLarge)
        #expect(table.classify(status: 401, isProved: false, on: .exchange) == .authentication)
    }

    @Test("an app changes a row, with or without a code")
    func ownRows() {
        var table = FailureTable()
        table.set(.permanent, status: 503, code: "quota", on: .change)
        table.set(.temporary, status: 418, on: .change)
        #expect(table.classify(status: 503, code: "quota", on: .change) == .permanent)
        #expect(table.classify(status: 503, on: .change) == .temporary)
        #expect(table.classify(status: 418, on: .change) == .temporary)
        #expect(table.classify(status: 418, on: .exchange) == .unknown)
    }
}
