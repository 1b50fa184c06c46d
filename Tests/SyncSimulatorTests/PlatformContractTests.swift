import Foundation
import HTTPTypes
import Orchestrator
import Storage
import SyncCore
import SyncSimulator
import SyncTesting
import Testing
import Transport

@Suite("What an app or a platform gives keeps the contract", .timeLimit(.minutes(20)))
struct PlatformContractTests {
    // MARK: HTTP

    #if AsyncHTTPClient && !canImport(Darwin)
        @Test(
            "AsyncHTTPClient, alone and behind a step that does nothing to it",
            arguments: HTTPTransportContract.rules.indices)
        func http(rule: Int) async throws {
            // So patient that a busy machine is no trouble.
            try await HTTPTransportContract.rules[rule].check {
                AsyncHTTPClientTransport(connectTimeout: .seconds(300), keepAlive: .seconds(600))
            }
            try await HTTPTransportContract.rules[rule].check {
                FaultyHTTP(AsyncHTTPClientTransport(connectTimeout: .seconds(300), keepAlive: .seconds(600))) { _ in nil
                }
            }
        }

        @Test("no rule of HTTP passes whatever a client does")
        func brokenHTTP() async {
            let found = await broken(HTTPTransportContract.rules, by: BrokenHTTP.Bug.allCases) { bug in
                { () throws -> any HTTPTransport in
                    BrokenHTTP(AsyncHTTPClientTransport(connectTimeout: .seconds(300), keepAlive: .seconds(600)), bug)
                }
            }
            #expect(found == HTTPTransportContract.rules.map(\.name))
        }
    #endif

    // MARK: Authentication

    @Test("bearer tokens, with others left and without", arguments: AuthenticationContract.rules.indices)
    func authentication(rule: Int) async throws {
        let all: [any Credentials] = [
            ScriptedCredentials("a", "b"), ScriptedCredentials("a"), FixedCredentials(nil),
        ]
        for credentials in all {
            try await AuthenticationContract.rules[rule].check(
                BearerAuthentication(credentials: credentials, account: nil))
        }
    }

    @Test("no rule of authentication passes whatever it does")
    func brokenAuthentication() async {
        let found = await broken(AuthenticationContract.rules, by: BrokenAuthentication.Bug.allCases) {
            BrokenAuthentication(bug: $0)
        }
        #expect(found == AuthenticationContract.rules.map(\.name))
    }

    // MARK: Connectivity

    @Test("paths that a test says", arguments: ConnectivityContract.rules.indices)
    func paths(rule: Int) async throws {
        let paths = PathSwitch()
        try await ConnectivityContract.rules[rule].check(
            ConnectivitySubject(connectivity: paths) { paths.say($0) })
    }

    #if !canImport(Network)
        @Test("the kernel's tables, looked up", arguments: ConnectivityContract.rules.indices)
        func system(rule: Int) async throws {
            let path = Said()
            try await ConnectivityContract.rules[rule].check(
                ConnectivitySubject(connectivity: SystemConnectivity(clock: VirtualClock()) { path.present }) {
                    path.present = $0
                })
        }
    #endif

    @Test("no rule of connectivity passes whatever it does")
    func brokenPaths() async {
        let found = await broken(ConnectivityContract.rules, by: BrokenPaths.Bug.allCases) { bug in
            let inner = PathSwitch()
            return ConnectivitySubject(connectivity: BrokenPaths(inner: inner, bug: bug)) { inner.say($0) }
        }
        #expect(found == ConnectivityContract.rules.map(\.name))
    }

    @Test("A switched path is told to all who listen, and who has gone is forgotten")
    func switched() async {
        let paths = PathSwitch(NetworkPath(isReachable: false))
        var kept = paths.paths().makeAsyncIterator()
        #expect(await kept.next()?.isReachable == false)
        do {
            var dropped = paths.paths().makeAsyncIterator()
            #expect(await dropped.next()?.isReachable == false)
            #expect(paths.listenerCount == 2)
        }
        #expect(paths.listenerCount == 1)
        paths.say(NetworkPath(isReachable: true))
        #expect(await kept.next()?.isReachable == true)
    }

    // MARK: InstallToken

    private static func tokens(
        _ rule: Int, _ tokens: any InstallToken
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("tokens-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try await InstallTokenContract.rules[rule].check(
            InstallTokenSubject(
                tokens: tokens, database: folder.appendingPathComponent("a.sqlite").path,
                other: folder.appendingPathComponent("b.sqlite").path))
    }

    @Test("the platform's", arguments: InstallTokenContract.rules.indices)
    func installToken(rule: Int) async throws {
        guard let live = PlatformInstallToken.live else { return }
        try await Self.tokens(rule, live)
    }

    @Test("no rule of tokens passes whatever a keeper does")
    func brokenTokens() async {
        let found = await broken(InstallTokenContract.rules, by: BrokenTokens.Bug.allCases) { bug in
            InstallTokenSubject(tokens: BrokenTokens(bug: bug), database: "a", other: "b")
        }
        #expect(found == InstallTokenContract.rules.map(\.name))
    }
}

/// The rules of a suite that are broken by one of these mistakes at least.
private func broken<Subject: Sendable, Bug>(
    _ rules: [ContractRule<Subject>], by bugs: [Bug], _ make: (Bug) async throws -> Subject
) async -> [String] {
    var names: [String] = []
    for rule in rules {
        for bug in bugs {
            do { try await rule.check(try await make(bug)) } catch {
                names.append(rule.name)
                break
            }
        }
    }
    return names
}

/// What the kernel would say.
private final class Said: @unchecked Sendable {
    // Sendable: `path` is used under `lock` alone.
    private let lock = NSLock()
    private var path = NetworkPath(isReachable: false)
    var present: NetworkPath {
        get { lock.withLock { path } }
        set { lock.withLock { path = newValue } }
    }
}

/// A client with one mistake.
private final class BrokenHTTP: HTTPTransport, @unchecked Sendable {
    // Sendable: `first` is used under `lock` alone.
    enum Bug: CaseIterable { case losesBody, cutsAnswers, repeats, follows, caches, hidesKinds, staysOpen }
    private let inner: any HTTPTransport
    private let bug: Bug
    private let lock = NSLock()
    private var first: HTTPResponse?

    init(_ inner: any HTTPTransport, _ bug: Bug) { (self.inner, self.bug) = (inner, bug) }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        var request = request
        if bug == .losesBody { request.headerFields[.contentLength] = nil }
        if bug == .caches, let kept = lock.withLock({ first }) { return HTTPAnswer(head: kept, body: HTTPBody([])) }
        do throws(HTTPFailure) {
            var answer = try await inner.send(request, body: bug == .losesBody ? [] : body)
            lock.withLock { first = first ?? answer.head }
            if bug == .follows, answer.head.status.code == 307 { answer = try await inner.send(request, body: body) }
            if bug == .cutsAnswers { answer.body = HTTPBody([]) }
            return answer
        } catch {
            switch bug {
            case .repeats where error.kind == .interrupted: return try await inner.send(request, body: body)
            case .hidesKinds: throw HTTPFailure(.unusable, error.message)
            case .staysOpen where error.kind == .closed:
                return HTTPAnswer(head: HTTPResponse(status: .ok), body: HTTPBody([]))
            default: throw error
            }
        }
    }

    func close() async { await inner.close() }
}

/// A proof with one mistake.
private struct BrokenAuthentication: Authentication {
    enum Bug: CaseIterable { case rewrites, changesAlways, promises, renewsForOne }
    let bug: Bug
    private let count = Count()

    init(bug: Bug) { self.bug = bug }

    func authenticate(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPRequest {
        var request = request
        if bug == .rewrites { request.method = .get }
        if bug == .changesAlways { request.headerFields[.authorization] = "\(count.next())" }
        return request
    }

    func renew(after request: HTTPRequest) async throws(HTTPFailure) -> Bool {
        bug == .renewsForOne ? count.next() == 1 : bug == .promises
    }
}

/// Paths with one mistake.
private struct BrokenPaths: Connectivity {
    enum Bug: CaseIterable { case beginsWithNothing, keepsAll, saysOnce, endsAtOnce }
    let inner: PathSwitch
    let bug: Bug

    func paths() -> AsyncStream<NetworkPath> {
        switch bug {
        case .beginsWithNothing: return AsyncStream { $0.finish() }
        case .keepsAll:
            let said = [NetworkPath(isReachable: true, link: "wifi"), NetworkPath(isReachable: false)]
            return AsyncStream { continuation in
                for path in said { continuation.yield(path) }
                continuation.finish()
            }
        case .saysOnce:
            return AsyncStream { continuation in
                continuation.yield(NetworkPath(isReachable: true, link: "wifi"))
                continuation.finish()
            }
        case .endsAtOnce: return AsyncStream { nil }
        }
    }
}

/// Tokens with one mistake.
private final class BrokenTokens: InstallToken, @unchecked Sendable {
    // Sendable: used by one task.
    enum Bug: CaseIterable { case forgets, hasOne, sharesAll }
    let bug: Bug
    private var kept: String?
    init(bug: Bug) { self.bug = bug }
    func token(for database: String) throws -> String? {
        switch bug {
        case .forgets: nil
        case .hasOne: "one"
        case .sharesAll: kept
        }
    }
    func keep(_ token: String, for database: String) throws { kept = token }
}

/// Counts up from 1.
private final class Count: @unchecked Sendable {
    // Sendable: `value` is used under `lock` alone.
    private let lock = NSLock()
    private var value = 0
    func next() -> Int {
        lock.withLock {
            value += 1
            return value
        }
    }
}
