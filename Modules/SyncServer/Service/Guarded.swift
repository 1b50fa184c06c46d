internal import Foundation

/// A value that one thread at a time may touch.
///
/// `@unchecked Sendable`: `value` is private and only ever reached within `lock`, which is held for the whole call;
/// nothing hands a reference to it out.
final class Guarded<Value>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    init(_ value: sending Value) { self.value = value }

    /// As ``with(_:)``, but `nil` instead of a wait.
    func ifFree<Result>(_ body: (inout Value) throws -> Result?) rethrows -> Result? {
        guard lock.try() else { return nil }
        defer { lock.unlock() }
        return try body(&value)
    }

    func with<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}
