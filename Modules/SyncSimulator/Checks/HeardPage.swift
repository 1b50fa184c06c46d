import SyncCore

extension Verdict {
    /// What it tells of the record beside what became of the change.
    var record: ServerRecord? {
        switch self {
        case .merged(let record), .conflict(let record): record
        case .applied, .rejected, .blocked, .retry: nil
        }
    }
}

extension ChangeResult {
    /// Whether the server does not say what the record came to: the change was done to nothing, or was decided once, nobody knows how.
    var leavesOpen: Bool {
        switch verdict {
        case .applied(let version, _, _): version == nil
        case .rejected(let rejection): rejection.code == .expired || rejection.code == .keyReused
        default: false
        }
    }

    /// Whether the server says that there is no such record.
    var isNotFound: Bool { if case .rejected(let rejection) = verdict { rejection.code == .notFound } else { false } }
}

/// A page that tells which records are read of it.
struct HeardPage: RecordPage {
    let page: any RecordPage
    let onRecords: @Sendable ([ServerRecord]) -> Void

    var count: Int { page.count }

    func next(maxRecords: Int, maxBytes: Int) throws(ExchangeFailure) -> [ServerRecord] {
        let records = try page.next(maxRecords: maxRecords, maxBytes: maxBytes)
        onRecords(records)
        return records
    }
}
