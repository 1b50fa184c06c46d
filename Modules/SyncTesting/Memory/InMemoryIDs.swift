public import SyncCore
import Foundation

/// What a server calls records, in a dictionary.
public final class InMemoryIDs: IDTranslation, @unchecked Sendable {
    // Sendable: `names`, `failure` and `questions` are used under `lock` alone.
    private let lock = NSLock()
    private var names: [RecordKey: String] = [:]
    private var failure: StoreFailure?
    private var questions = 0

    public init() {}

    /// The server calls this device's record so.
    public func put(_ record: RecordKey, _ serverID: String) { lock.withLock { names[record] = serverID } }

    /// Every look fails like this from now on; `nil` ends it.
    public func fail(_ failure: StoreFailure?) { lock.withLock { self.failure = failure } }

    /// How often ids were looked up.
    public var lookCount: Int { lock.withLock { questions } }

    public func hasServerIDs() throws(StoreFailure) -> Bool { try looked(isCounted: false) { !$0.isEmpty } }

    public func serverIDs(of records: Set<RecordKey>) throws(StoreFailure) -> [RecordKey: String] {
        try looked { names in names.filter { records.contains($0.key) } }
    }

    public func localIDs(of records: Set<RecordKey>) throws(StoreFailure) -> [RecordKey: String] {
        try looked { names in
            var found: [RecordKey: String] = [:]
            for (record, serverID) in names  // any order
            where records.contains(RecordKey(record.entity, serverID)) {
                found[RecordKey(record.entity, serverID)] = record.id
            }
            return found
        }
    }

    private func looked<T>(
        isCounted: Bool = true, _ body: ([RecordKey: String]) -> T
    ) throws(StoreFailure) -> T {
        let (names, failure) = lock.withLock { () -> ([RecordKey: String], StoreFailure?) in
            if isCounted { questions += 1 }
            return (self.names, self.failure)
        }
        if let failure { throw failure }
        return body(names)
    }
}
