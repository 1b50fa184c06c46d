import Foundation
public import SyncCore

/// What the engine changed in the app's tables: which records, and by whose word.
public struct AppliedNotice: Sendable, Hashable {
    /// By whose word the rows changed.
    public enum Origin: String, Sendable, Hashable, CaseIterable {
        /// A slice of a page.
        case page
        /// A verdict on a change of this device.
        case verdict
        /// The app took a change back, or gave it up.
        case repair
        /// The end of a full pass, or of a root's or the account's stay; which records is not known.
        case fullPass
        /// Another process that has the file open; which records is not known.
        case otherProcess
    }

    public var origin: Origin
    /// The records in the order in which they changed; none where that is not known.
    public var records: [RecordKey]
    /// Notices before this one were dropped, since nobody took them: whoever listens reads anew.
    public var isIncomplete: Bool

    public init(origin: Origin, records: [RecordKey], isIncomplete: Bool = false) {
        self.origin = origin
        self.records = records
        self.isIncomplete = isIncomplete
    }

    /// The entities of these records.
    public var entities: Set<String> { Set(records.map(\.entity)) }
}

/// Who listens to ``AppliedNotice``; a listener that is slow loses the oldest ones, and is told so.
final class NoticeSpeakers: @unchecked Sendable {  // the lock guards all fields
    private struct Listener {
        var continuation: AsyncStream<AppliedNotice>.Continuation
        var hasLost = false
    }

    private let lock = NSLock()
    private var listeners: [Int: Listener] = [:]
    private var next = 0
    private var tap: (@Sendable (AppliedNotice) -> Void)?

    /// Hears each notice as it is spoken, before any stream's listener has a turn.
    func tap(_ hear: @escaping @Sendable (AppliedNotice) -> Void) { lock.withLock { tap = hear } }

    func stream(keeping notices: Int) -> AsyncStream<AppliedNotice> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: AppliedNotice.self, bufferingPolicy: .bufferingNewest(notices))
        let number = lock.withLock {
            next += 1
            listeners[next] = Listener(continuation: continuation)
            return next
        }
        continuation.onTermination = { [weak self] _ in
            self?.lock.withLock { _ = self?.listeners.removeValue(forKey: number) }
        }
        return stream
    }

    func speak(_ notice: AppliedNotice) {
        lock.withLock { tap }?(notice)
        // Nobody is resumed under the lock: a yield only puts into the buffer.
        lock.withLock {
            for number in listeners.keys.sorted() {
                guard var listener = listeners[number] else { continue }
                var told = notice
                told.isIncomplete = listener.hasLost
                listener.hasLost = false
                // The oldest went for this one; the next says so, and so does this, should it be the only one left.
                if case .dropped = listener.continuation.yield(told) { listener.hasLost = true }
                listeners[number] = listener
            }
        }
    }

    func finish() {
        let all = lock.withLock {
            defer { listeners = [:] }
            return listeners.sorted { $0.key < $1.key }.map(\.value.continuation)
        }
        for continuation in all { continuation.finish() }
    }
}
