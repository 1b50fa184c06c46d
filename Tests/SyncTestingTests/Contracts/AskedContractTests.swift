import Foundation
import SyncCore
import SyncTesting
import Testing

@Suite("Gates, credentials, maps of ids and hints of SyncTesting keep their contracts", .timeLimit(.minutes(20)))
struct AskedContractTests {
    // MARK: Gate

    private static func gate(_ front: (GateSwitch) -> any Gate) -> GateSubject {
        let gate = GateSwitch()
        let until = ManualWallClock.usualStart + 60_000
        return GateSubject(
            gate: front(gate),
            close: { reason in
                switch reason {
                case .own: gate.setForRoutine(.closed(untilMilliseconds: nil, cause: "paused"))
                case .serverWord: gate.set(.closed(untilMilliseconds: until, cause: "the server asked for a pause"))
                }
            }, open: { gate.set(.open) }, now: { ManualWallClock.usualStart })
    }

    @Test("a switched gate", arguments: GateContract.rules.indices)
    func gate(rule: Int) async throws { try await GateContract.rules[rule].check(Self.gate { $0 }) }

    @Test("no rule passes whatever a gate does")
    func brokenGates() async throws {
        let found = await broken(GateContract.rules, by: BrokenGate.Bug.allCases) { bug in
            Self.gate { BrokenGate(inner: $0, bug: bug) }
        }
        #expect(found == GateContract.rules.map(\.name))
    }

    // MARK: Credentials

    @Test("scripted credentials, with tokens left and without", arguments: CredentialsContract.rules.indices)
    func scripted(rule: Int) async throws {
        try await CredentialsContract.rules[rule].check(ScriptedCredentials("a", "b", "c", account: "ann"))
        try await CredentialsContract.rules[rule].check(ScriptedCredentials("a"))
        try await CredentialsContract.rules[rule].check(ScriptedCredentials([]))
    }

    @Test("one token that never changes, and none", arguments: CredentialsContract.rules.indices)
    func fixed(rule: Int) async throws {
        try await CredentialsContract.rules[rule].check(FixedCredentials(Token(value: "a", account: "ann")))
        try await CredentialsContract.rules[rule].check(FixedCredentials(nil))
    }

    @Test("no rule passes whatever credentials do")
    func brokenCredentials() async throws {
        let found = await broken(CredentialsContract.rules, by: BrokenCredentials.Bug.allCases) { bug in
            BrokenCredentials(bug: bug)
        }
        #expect(found == CredentialsContract.rules.map(\.name))
    }

    // MARK: IDTranslation

    private static func ids(_ front: (InMemoryIDs) -> any IDTranslation) -> IDTranslationSubject {
        let ids = InMemoryIDs()
        return IDTranslationSubject(translation: front(ids)) { ids.put($0, $1) }
    }

    @Test("a map in memory", arguments: IDTranslationContract.rules.indices)
    func ids(rule: Int) async throws { try await IDTranslationContract.rules[rule].check(Self.ids { $0 }) }

    @Test("no rule passes whatever a map does")
    func brokenMaps() async throws {
        let found = await broken(IDTranslationContract.rules, by: BrokenIDs.Bug.allCases) { bug in
            Self.ids { BrokenIDs(inner: $0, bug: bug) }
        }
        #expect(found == IDTranslationContract.rules.map(\.name))
    }

    // MARK: HintSource

    private static func hints(_ front: (ScriptedHints) -> any HintSource) -> HintSourceSubject {
        let hints = ScriptedHints()
        return HintSourceSubject(
            source: front(hints), asked: { hints.versions }, say: { hints.say($0) }, end: { hints.end() },
            refuse: { hints.refuseNext(.status(503)) })
    }

    @Test("scripted hints", arguments: HintSourceContract.rules.indices)
    func hints(rule: Int) async throws { try await HintSourceContract.rules[rule].check(Self.hints { $0 }) }

    @Test("no rule passes whatever a source of hints does")
    func brokenHints() async throws {
        let found = await broken(HintSourceContract.rules, by: BrokenHints.Bug.allCases) { bug in
            Self.hints { BrokenHints(inner: $0, bug: bug) }
        }
        #expect(found == HintSourceContract.rules.map(\.name))
    }
}

/// A gate with one mistake.
private final class BrokenGate: Gate, @unchecked Sendable {
    // Sendable: `count` is used by one task.
    enum Bug: CaseIterable { case opensWhenAsked, alwaysClosed, letsUserThrough, noTime, noCause }
    let inner: GateSwitch
    let bug: Bug
    var count = 0

    init(inner: GateSwitch, bug: Bug) {
        self.inner = inner
        self.bug = bug
    }

    func mayGo(_ urgency: Urgency) async -> GateAnswer {
        count += 1
        let answer = await inner.mayGo(urgency)
        switch bug {
        case .opensWhenAsked: return count > 1 ? .open : answer
        case .alwaysClosed: return .closed(untilMilliseconds: nil, cause: "closed")
        case .letsUserThrough: return urgency == .user ? .open : answer
        case .noTime: return answer == .open ? .open : .closed(untilMilliseconds: nil, cause: "closed")
        case .noCause: return answer == .open ? .open : .closed(untilMilliseconds: .max, cause: "")
        }
    }
}

/// Credentials with one mistake.
private final class BrokenCredentials: Credentials, @unchecked Sendable {
    // Sendable: `count` is used under `lock` alone.
    enum Bug: CaseIterable { case changes, isEmpty, comesBack, othersAccount, firstOnly, newIsEmpty }
    let bug: Bug
    private let lock = NSLock()
    private var count = 0

    init(bug: Bug) { self.bug = bug }

    private func next() -> Int {
        lock.withLock {
            count += 1
            return count
        }
    }

    func token() async throws -> Token? {
        switch bug {
        case .changes: Token(value: "\(next())")
        case .isEmpty: Token(value: "")
        default: Token(value: "a", account: "ann")
        }
    }

    func refresh(_ old: Token?) async throws -> Token? {
        switch bug {
        case .comesBack: old
        case .othersAccount: Token(value: "b", account: "bob")
        case .firstOnly: next() == 1 ? Token(value: "b", account: "ann") : nil
        case .newIsEmpty: Token(value: "")
        case .changes, .isEmpty: nil
        }
    }
}

/// A map with one mistake.
private struct BrokenIDs: IDTranslation {
    enum Bug: CaseIterable { case answersForAll, mixesSides, mixesEntities, forgetsToFilter, deniesIDs, fails }
    let inner: InMemoryIDs
    let bug: Bug

    func hasServerIDs() throws(StoreFailure) -> Bool { bug == .deniesIDs ? false : try inner.hasServerIDs() }

    func serverIDs(of records: Set<RecordKey>) throws(StoreFailure) -> [RecordKey: String] {
        switch bug {
        case .answersForAll:
            return Dictionary(uniqueKeysWithValues: records.map { ($0, $0.id) })
        case .mixesSides: return try inner.serverIDs(of: records).merging(inner.localIDs(of: records)) { $1 }
        case .forgetsToFilter:
            return try inner.serverIDs(of: Set((1...50).map { RecordKey("board", "b\($0)") }))
        default: return try inner.serverIDs(of: records)
        }
    }

    func localIDs(of records: Set<RecordKey>) throws(StoreFailure) -> [RecordKey: String] {
        if bug == .fails { throw StoreFailure(kind: .busy, message: "busy") }
        var found = try inner.localIDs(of: records)
        if bug == .mixesEntities {
            for record in records {
                let other = RecordKey(record.entity == "board" ? "card" : "board", record.id)
                if let id = try inner.localIDs(of: [other])[other] { found[record] = id }
            }
        }
        return found
    }
}

/// Hints with one mistake.
private struct BrokenHints: HintSource {
    enum Bug: CaseIterable { case neverOpens, allAtOnce, triesAgain, endsQuietly }
    let inner: ScriptedHints
    let bug: Bug

    func listen(
        after version: Int64?, _ heard: @escaping @Sendable (HintEvent) async -> Void
    ) async throws(ExchangeFailure) {
        do throws(ExchangeFailure) {
            try await inner.listen(after: version) { event in
                switch bug {
                case .neverOpens:
                    await heard(event == .opened ? .hint(Hint()) : event)
                case .allAtOnce:
                    await withTaskGroup(of: Void.self) { group in
                        for _ in 0..<2 { group.addTask { await heard(event) } }
                    }
                default: await heard(event)
                }
            }
        } catch {
            switch bug {
            case .triesAgain where !error.isCancelled:
                _ = try? await inner.listen(after: version) {
                    await heard($0); self.inner.end()
                }
                throw error
            case .endsQuietly: return
            default: throw error
            }
        }
    }
}
