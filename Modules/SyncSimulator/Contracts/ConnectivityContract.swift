public import Orchestrator
public import SyncTesting

/// What a platform says of the network, on trial, and how the suite speaks as the platform.
public struct ConnectivitySubject: Sendable {
    public var connectivity: any Connectivity
    /// The device is connected like this from now on.
    public var say: @Sendable (NetworkPath) async -> Void

    public init(connectivity: any Connectivity, say: @escaping @Sendable (NetworkPath) async -> Void) {
        self.connectivity = connectivity
        self.say = say
    }
}

/// What every ``Connectivity`` must keep; run each rule on a fresh one.
public enum ConnectivityContract {
    private static let (none, wifi) = (NetworkPath(isReachable: false), NetworkPath(isReachable: true, link: "wifi"))
    private static let cellular = NetworkPath(isReachable: true, isMetered: true, link: "cellular")

    public static let rules: [ContractRule<ConnectivitySubject>] = [
        rule("a stream begins with the present path") { subject, expect in
            for path in [wifi, none] {
                await subject.say(path)
                var paths = subject.connectivity.paths().makeAsyncIterator()
                try expect.equal(await paths.next(isolation: #isolation), path, "the first")
            }
        },
        rule("of what nobody has read the newest is kept, and no other") { subject, expect in
            await subject.say(wifi)
            var paths = subject.connectivity.paths().makeAsyncIterator()
            try expect.equal(await paths.next(isolation: #isolation), wifi, "the first")
            for path in [none, wifi, cellular] { await subject.say(path) }
            try expect.equal(await paths.next(isolation: #isolation), cellular, "the newest")
            await subject.say(none)
            try expect.equal(await paths.next(isolation: #isolation), none, "the next")
        },
        rule("each call has a stream of its own") { subject, expect in
            await subject.say(wifi)
            var first = subject.connectivity.paths().makeAsyncIterator()
            try expect.equal(await first.next(isolation: #isolation), wifi, "the first stream's first")
            var second = subject.connectivity.paths().makeAsyncIterator()
            try expect.equal(await second.next(isolation: #isolation), wifi, "the second stream's first")
            await subject.say(cellular)
            try expect.equal(await second.next(isolation: #isolation), cellular, "the second's next")
            try expect.equal(await first.next(isolation: #isolation), cellular, "the first's next")
        },
        rule("a stream ends with the task that listens") { subject, expect in
            await subject.say(wifi)
            let paths = subject.connectivity.paths()
            let (heard, hear) = AsyncStream.makeStream(of: NetworkPath.self)
            let task = Task {  // owner: this rule, which waits for it
                for await path in paths { hear.yield(path) }
                hear.finish()
            }
            var told = heard.makeAsyncIterator()
            try expect.equal(await told.next(isolation: #isolation), wifi, "the first")
            task.cancel()
            await task.value
            try expect.equal(await told.next(isolation: #isolation), nil, "behind the end")
        },
    ]

    private static func rule(
        _ name: String, _ body: @escaping @Sendable (ConnectivitySubject, Expectation) async throws -> Void
    ) -> ContractRule<ConnectivitySubject> { ContractRule("Connectivity", name, body) }
}
