public import SyncCore
import Foundation

/// A sender whose server is a script: it takes every change, unless the script says otherwise, and keeps what arrived.
///
/// As the seam wants it: after a verdict, what fails ends the sending, and the verdicts so far come back.
public final class ScriptedSender: ChangeSender, @unchecked Sendable {
    // Sendable: everything that changes is used under `lock` alone.

    /// What becomes of one change, or of a probe.
    public enum Act: Sendable {
        /// It is applied, under the next version.
        case take
        /// It is decided, or put off, like this.
        case verdict(Verdict)
        /// There is no verdict; the server did nothing.
        case fail(ExchangeFailure)
        /// The server applies it, and the connection breaks before anybody hears of it.
        case loseAnswer
        /// It waits for ``ScriptedSender/release()``, or until it is cancelled, and is then taken.
        case hold
    }

    /// A change as the server saw it.
    public struct Arrival: Sendable, Hashable {
        public let change: Change
        public let deviceID: String

        public init(change: Change, deviceID: String) {
            self.change = change
            self.deviceID = deviceID
        }
    }

    private let lock = NSLock()
    private let script: @Sendable (_ change: Change, _ number: Int) -> Act
    private let held = Hold()
    private var acts: [Act] = []
    private var probeActs: [Act] = []
    private var usualProbe = Act.take
    private var arrived: [Arrival] = []
    private var applied: [String] = []
    private var probed = 0
    private var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []

    /// - Parameter script: what becomes of a change that has no act of its own; its number counts from 1 on.
    public init(_ script: @escaping @Sendable (_ change: Change, _ number: Int) -> Act = { _, _ in .take }) {
        self.script = script
    }

    /// What becomes of the next changes, whatever the script says.
    public func next(_ acts: Act...) { lock.withLock { self.acts += acts } }

    /// What becomes of the next probes, before ``otherProbes``.
    public func nextProbes(_ acts: Act...) { lock.withLock { probeActs += acts } }

    /// What becomes of probes that have no act of their own.
    public var otherProbes: Act {
        get { lock.withLock { usualProbe } }
        set { lock.withLock { usualProbe = newValue } }
    }

    /// What reached the server, each time that it did, in order.
    public var arrivals: [Arrival] { lock.withLock { arrived } }

    /// The keys of what the server applied, in order, whether anybody heard of it or not.
    public var taken: [String] { lock.withLock { applied } }

    /// How often the server was asked for something else than a change.
    public var probes: Int { lock.withLock { probed } }

    /// Lets go what is held now.
    public func release() { held.release() }

    /// Waits until so much was held.
    public func waitForHeld(_ count: Int) async { await held.waitForArrivals(count) }

    /// Waits until so many changes have arrived.
    public func waitForArrivals(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isMet = lock.withLock { () -> Bool in
                if arrived.count >= count { return true }
                watchers.append((count, continuation))
                return false
            }
            if isMet { continuation.resume() }
        }
    }

    public func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult] {
        var results: [ChangeResult] = []
        for change in changes {
            do throws(ExchangeFailure) {
                let verdict = try await verdict(on: change, from: deviceID)
                results.append(ChangeResult(changeID: change.id, verdict: verdict))
            } catch {
                if results.isEmpty { throw error }
                return results
            }
        }
        return results
    }

    public func probe() async throws(ExchangeFailure) {
        let act = lock.withLock { () -> Act in
            probed += 1
            return probeActs.isEmpty ? usualProbe : probeActs.removeFirst()
        }
        switch act {
        case .take, .verdict: return
        case .fail(let failure): throw failure
        case .loseAnswer: throw Self.broken
        case .hold:
            await held.wait()
            if Task.isCancelled { throw .cancelled }
        }
    }

    private func verdict(on change: Change, from deviceID: String) async throws(ExchangeFailure) -> Verdict {
        switch arrive(change, deviceID) {
        case .take: return take(change)
        case .verdict(let verdict): return verdict
        case .fail(let failure): throw failure
        case .loseAnswer:
            _ = take(change)
            throw Self.broken
        case .hold:
            await held.wait()
            if Task.isCancelled { throw .cancelled }
            return take(change)
        }
    }

    private func arrive(_ change: Change, _ deviceID: String) -> Act {
        let (act, number, met) = lock.withLock { () -> (Act?, Int, [CheckedContinuation<Void, Never>]) in
            arrived.append(Arrival(change: change, deviceID: deviceID))
            let met = watchers.filter { $0.count <= arrived.count }.map(\.continuation)
            watchers.removeAll { $0.count <= arrived.count }
            return (acts.isEmpty ? nil : acts.removeFirst(), arrived.count, met)
        }
        for watcher in met { watcher.resume() }
        return act ?? script(change, number)
    }

    private func take(_ change: Change) -> Verdict {
        lock.withLock {
            applied.append(change.id)
            return .applied(version: Int64(applied.count), overwrote: [:], serverID: nil)
        }
    }

    private static let broken = ExchangeFailure(
        kind: .network, message: "the connection broke", reachedServer: true, isBrokenOff: true)
}
