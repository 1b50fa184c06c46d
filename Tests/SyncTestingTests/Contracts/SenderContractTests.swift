import Foundation
import SyncCore
import SyncTesting
import Testing

@Suite("The senders and fetchers of SyncTesting keep the contract", .timeLimit(.minutes(20)))
struct SenderContractTests {
    private static func subject(_ front: (ScriptedSender) -> any ChangeSender) -> ChangeSenderSubject {
        let fates = Fates()
        let script = ScriptedSender { change, _ in fates.take(change.id) }
        return ChangeSenderSubject(
            sender: front(script),
            arrivals: { script.arrivals.map { .init(changeID: $0.change.id, deviceID: $0.deviceID) } },
            suffer: { fate, changeID in
                if let changeID { fates.put(fate.act, changeID) } else { script.nextProbes(fate.act) }
            },
            waitForHeld: { await script.waitForHeld(1) })
    }

    @Test("a scripted sender", arguments: ChangeSenderContract.rules.indices)
    func sender(rule: Int) async throws {
        try await ChangeSenderContract.rules[rule].check(Self.subject { $0 })
    }

    @Test("no rule passes whatever a sender does")
    func brokenSenders() async throws {
        let found = await broken(ChangeSenderContract.rules, by: BrokenSender.Bug.allCases) { bug in
            Self.subject { BrokenSender(inner: $0, bug: bug) }
        }
        #expect(found == ChangeSenderContract.rules.map(\.name))
    }

    private static func fetching(_ front: (ScriptedFetcher) -> any RecordFetcher) -> RecordFetcherSubject {
        let fetcher = ScriptedFetcher()
        return RecordFetcherSubject(
            fetcher: front(fetcher), asked: { fetcher.requests },
            suffer: { fetcher.next($0 == .refused ? .fail(.status(503)) : .hold) },
            waitForHeld: { await fetcher.waitForHeld(1) })
    }

    @Test("a scripted fetcher", arguments: RecordFetcherContract.rules.indices)
    func fetcher(rule: Int) async throws {
        try await RecordFetcherContract.rules[rule].check(Self.fetching { $0 })
    }

    @Test("no rule passes whatever a fetcher does")
    func brokenFetchers() async throws {
        let found = await broken(RecordFetcherContract.rules, by: BrokenFetcher.Bug.allCases) { bug in
            Self.fetching { BrokenFetcher(inner: $0, bug: bug) }
        }
        #expect(found == RecordFetcherContract.rules.map(\.name))
    }
}

/// What becomes of the next request with a change.
private final class Fates: @unchecked Sendable {
    // Sendable: `acts` is used under `lock` alone.
    private let lock = NSLock()
    private var acts: [String: ScriptedSender.Act] = [:]
    func put(_ act: ScriptedSender.Act, _ changeID: String) { lock.withLock { acts[changeID] = act } }
    func take(_ changeID: String) -> ScriptedSender.Act {
        lock.withLock { acts.removeValue(forKey: changeID) ?? .take }
    }
}

extension ChangeSenderSubject.Fate {
    fileprivate var act: ScriptedSender.Act {
        switch self {
        case .refused: .fail(.status(503))
        case .answerLost: .loseAnswer
        case .held: .hold
        }
    }
}

/// A sender with one mistake.
private struct BrokenSender: ChangeSender {
    enum Bug: CaseIterable {
        case sendsEmpty, reverses, repeats, losesVerdicts, hidesCancellation, probesByWriting, probesAlone
    }
    let inner: ScriptedSender
    let bug: Bug

    func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult] {
        switch bug {
        case .sendsEmpty where changes.isEmpty:
            return [ChangeResult(changeID: "", verdict: .retry(afterSeconds: nil))]
        case .reverses: return try await inner.send(changes.reversed(), deviceID: deviceID)
        case .repeats:
            do throws(ExchangeFailure) { return try await inner.send(changes, deviceID: deviceID) } catch {
                if error.isCancelled { throw error }
                return try await inner.send(changes, deviceID: deviceID)
            }
        case .losesVerdicts:
            let results = try await inner.send(changes, deviceID: deviceID)
            if results.count < changes.count { throw .unreachable }
            return results
        case .hidesCancellation:
            do throws(ExchangeFailure) { return try await inner.send(changes, deviceID: deviceID) } catch {
                throw .unreachable
            }
        default: return try await inner.send(changes, deviceID: deviceID)
        }
    }

    func probe() async throws(ExchangeFailure) {
        switch bug {
        case .probesByWriting:
            let change = Change(
                id: "probe", sequence: 1, record: RecordKey("board", "p"), operation: .create, stamp: .zero, fields: [:]
            )
            _ = try await inner.send([change], deviceID: "")
        case .probesAlone: return
        default: try await inner.probe()
        }
    }
}

/// A fetcher with one mistake.
private struct BrokenFetcher: RecordFetcher {
    enum Bug: CaseIterable { case asksForAll, repeats, hidesCancellation }
    let inner: ScriptedFetcher
    let bug: Bug

    func fetch(_ request: DownloadRequest) async throws(ExchangeFailure) {
        switch bug {
        case .asksForAll: try await inner.fetch(DownloadRequest(scope: "", priority: 0))
        case .repeats, .hidesCancellation:
            do throws(ExchangeFailure) { try await inner.fetch(request) } catch {
                if bug == .hidesCancellation { throw .unreachable }
                try await inner.fetch(request)
            }
        }
    }
}
