/// Which class of failure an answer's status and problem code belong to (PROTOCOL.md, section 4).
///
/// A value that an app can change: `set(_:status:code:on:)` adds or replaces a row. Sorting never reads message texts.
/// Rows are looked up from the most exact to the least: status with code, status alone, then the status' hundred.
public struct FailureTable: Sendable, Hashable {
    /// What a request carried; some statuses mean one thing for a single change and another for a whole request.
    public enum Target: Sendable, Hashable, CaseIterable {
        /// One change (section 2), or a read of one record or list.
        case change
        /// Section 1's round trip, `POST /api/sync`.
        case exchange
    }

    private struct Row: Sendable, Hashable {
        var target: Target
        var status: Int
        var code: String?
    }

    private var rows: [Row: FailureClass] = [:]

    /// The contract's table.
    public init() {
        let temporary = [408, 425, 429, 499, 502, 503, 504, 530] + Array(520...526)
        for target in Target.allCases {
            for status in temporary { set(.temporary, status: status, on: target) }
            set(.network, status: 511, on: target)
            set(.authentication, status: 401, on: target)
            set(.tooLarge, status: 413, on: target)
            set(.temporary, status: 409, code: "keyInUse", on: target)
            set(.history, status: 409, code: "otherDataset", on: target)
        }
        set(.conflict, status: 409, code: "conflict", on: .change)
        set(.conflict, status: 412, on: .change)
        set(.history, status: 410, on: .exchange)
    }

    /// Adds a row, or replaces it; without a code it is the row of every code that has none of its own.
    public mutating func set(_ kind: FailureClass, status: Int, code: String? = nil, on target: Target) {
        rows[Row(target: target, status: status, code: code)] = kind
    }

    /// The class of an answer; `nil` for the three statuses of success (200, 201, 204).
    ///
    /// - Parameters:
    ///   - code: the problem's `code`, where the answer was a problem.
    ///   - hasRecord: whether the answer brought the record's present state (409 and 412).
    ///   - isProved: whether the answer's shape proves that the server itself spoke (section 2, last paragraph). What
    ///     would decide about a change, or about history, without proof is foreign: ``FailureClass/network``.
    ///   - target: what the request carried.
    public func classify(
        status: Int, code: String? = nil, hasRecord: Bool = false, isProved: Bool = true, on target: Target
    ) -> FailureClass? {
        if status == 200 || status == 201 || status == 204 { return nil }
        let kind = row(status: status, code: code, hasRecord: hasRecord, on: target)
        switch kind {
        case .permanent, .conflict, .history: return isProved ? kind : .network
        case .network, .temporary, .temporaryLonger, .authentication, .tooLarge, .unknown: return kind
        }
    }

    private func row(status: Int, code: String?, hasRecord: Bool, on target: Target) -> FailureClass {
        if let code, let kind = rows[Row(target: target, status: status, code: code)] { return kind }
        if let kind = rows[Row(target: target, status: status, code: nil)] { return kind }
        if status == 409, code == nil {
            // A record says what the server has instead; with nothing said, somebody else's request may be under way.
            return hasRecord && target == .change ? .conflict : .temporary
        }
        switch status {
        case 400...499: return target == .change ? .permanent : .unknown
        case 500...599: return .temporaryLonger
        default: return .network
        }
    }
}
