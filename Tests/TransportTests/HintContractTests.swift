import HTTPTypes
import SyncCore
import SyncTesting
import Testing

@testable import Transport

@Suite("The stream of events keeps the contract of hints", .timeLimit(.minutes(20))) struct HintContractTests {
    /// A server of events, on whose newest stream a suite speaks.
    private final class EventServer: Sendable {
        private struct State: Sendable {
            var asked: [Int64?] = []
            var refusals = 0
            var stream: AsyncStream<[UInt8]>.Continuation?
        }
        private let state = Locked(State())

        var asked: [Int64?] { state.withLock { $0.asked } }
        func refuse() { state.withLock { $0.refusals += 1 } }
        func end() { state.withLock { $0.stream }?.finish() }

        func say(_ hint: Hint) {
            var members: [String] = []
            if let version = hint.currentSyncVersion { members.append("\"currentSyncVersion\":\(version)") }
            if !hint.scopes.isEmpty {
                members.append("\"scopes\":[\(hint.scopes.map { "\"\($0)\"" }.joined(separator: ","))]")
            }
            let text = "data: {\(members.joined(separator: ","))}\n\n"
            state.withLock { $0.stream }?.yield(Array(text.utf8))
        }

        func answer(_ request: HTTPRequest) -> HTTPAnswer {
            let (stream, continuation) = AsyncStream.makeStream(of: [UInt8].self)
            let version = HTTPField.Name("Last-Event-ID").flatMap { request.headerFields[$0] }.flatMap { Int64($0) }
            let isRefused = state.withLock { state in
                state.asked.append(version)
                if state.refusals > 0 {
                    state.refusals -= 1
                    return true
                }
                state.stream = continuation
                return false
            }
            if isRefused { return .of(503, "", type: nil) }
            var answer = HTTPAnswer.of(200, "", type: "text/event-stream")
            answer.body = HTTPBody { () async throws(HTTPFailure) -> [UInt8]? in
                var iterator = stream.makeAsyncIterator()
                let piece = await iterator.next(isolation: nil)
                if piece == nil, Task.isCancelled { throw HTTPFailure(.cancelled, "cancelled") }
                return piece
            }
            return answer
        }
    }

    @Test("each rule holds", arguments: HintSourceContract.rules.indices)
    func rule(_ rule: Int) async throws {
        let server = EventServer()
        let stream = try EventStream(
            endpoint: "https://api.example.com",
            http: ScriptedHTTP { (request, _) throws(HTTPFailure) in server.answer(request) },
            clock: VirtualClock(), wallClock: FixedWallClock())
        try await HintSourceContract.rules[rule].check(
            HintSourceSubject(
                source: stream, asked: { server.asked }, say: { server.say($0) }, end: { server.end() },
                refuse: { server.refuse() }))
    }
}
