import Foundation
import SyncCore
import SyncTesting

/// The way from one device to the server, with everything that a seed's tape puts into it.
final class DeviceNetwork: Exchange, @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor.
    let device: Int
    private let server: any SimulatedServer
    private let clock: VirtualClock
    private let record: Record
    /// By the number of the request, counted over the device's whole life.
    var faults: [Int: FaultTape.RequestFault] = [:]
    var isOffline = false
    /// Whose token the device has.
    var account = SimulatedDevice.account
    /// The server does not take its token.
    var isExpired = false
    /// Nothing leaves a dead process; the number of the living one.
    var generation = 0
    private(set) var requests = 0
    /// Copies of requests that the network still holds, and when they arrive.
    private(set) var copies: [(at: Duration, request: ExchangeRequest, account: String)] = []
    /// Sees each answer that came through to the engine.
    var onAnswer: (ExchangeAnswer, ExchangeRequest) -> Void = { _, _ in }
    /// Sees the records that the engine reads of the pages of such answers.
    var onRecords: ([ServerRecord]) -> Void = { _ in }
    /// Sees each request that came to nothing, before the engine hears of it.
    var onFailure: (ExchangeRequest) -> Void = { _ in }
    /// Keys whose effect the server has and of which the device heard nothing.
    private var unheard: Set<String> = []

    init(device: Int, server: any SimulatedServer, clock: VirtualClock, record: Record) {
        self.device = device
        self.server = server
        self.clock = clock
        self.record = record
    }

    /// The network as one process sees it; a process that died gets nothing through.
    func port() -> Port { Port(network: self, generation: generation, account: account) }

    struct Port: Exchange {
        let network: DeviceNetwork
        let generation: Int
        let account: String
        func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
            guard generation == network.generation else { throw .unreachable }
            var answer: ExchangeAnswer
            do { answer = try await network.exchange(request, by: account) } catch {
                if generation == network.generation { network.onFailure(request) }
                throw error
            }
            guard generation == network.generation else { throw .unreachable }
            network.onAnswer(answer, request)
            answer.page = HeardPage(page: answer.page) { [network, generation] in
                if generation == network.generation { network.onRecords($0) }
            }
            return answer
        }
        func close() async {}
    }

    func close() async {}

    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        try await exchange(request, by: account)
    }

    private func exchange(
        _ request: ExchangeRequest, by account: String
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        requests += 1
        let number = requests
        record.note("device \(device) request \(number) \(request.summary)")
        record.saw(request, from: device)
        guard !isOffline else { throw .unreachable }
        guard !isExpired else { throw .status(401, code: "unauthorized", retryAfter: nil) }
        guard let fault = faults[number] else { return try await deliver(request, by: account) }
        record.struck(fault.name)
        record.note("device \(device) request \(number) \(fault)")
        return try await suffer(fault, request, by: account)
    }

    private func suffer(
        _ fault: FaultTape.RequestFault, _ request: ExchangeRequest, by account: String
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        switch fault {
        case .latency(let there, let back):
            try await wait(there)
            let answer = try await deliver(request, by: account)
            try await wait(back)
            return answer
        case .lostRequest:
            throw ExchangeFailure(kind: .network, message: "the request was lost", reachedServer: false)
        case .lostAnswer:
            let answer = try await deliver(request, by: account)
            if !answer.results.isEmpty { record.cover(.answerLostAfterCommit) }
            unheard.formUnion(answer.results.filter { $0.verdict.isDecided }.map(\.changeID))
            throw ExchangeFailure(
                kind: .network, message: "the connection died", reachedServer: true, isBrokenOff: true)
        case .duplicated:
            _ = try await deliver(request, by: account)
            return try await deliver(request, by: account)
        case .replayedLater(let milliseconds):
            copies.append((clock.now.elapsed + .milliseconds(milliseconds), request, account))
            return try await deliver(request, by: account)
        case .status(let status, let retryAfter):
            throw .status(status, code: nil, retryAfter: retryAfter)
        case .missingVerdicts(let bits):
            var answer = try await deliver(request, by: account)
            let before = answer.results.count
            answer.results = answer.results.enumerated().filter {
                bits >> UInt64($0.offset % 64) & 1 == 0
            }
            .map(\.element)
            if answer.results.count < before { record.cover(.missingVerdict) }
            return answer
        case .shortPage(let limit):
            var shorter = request
            shorter.limit = limit
            let answer = try await deliver(shorter, by: account)
            if answer.hasMore { record.cover(.severalPages) }
            return answer
        case .backoff(let seconds):
            var answer = try await deliver(request, by: account)
            answer.backoffSeconds = seconds
            return answer
        case .foreignEpoch:
            var answer = try await deliver(request, by: account)
            guard request.epoch != nil else { return answer }
            answer.epoch += "-foreign"
            // Another history has other records and other versions.
            answer.page = ArrayPage([])
            answer.currentSyncVersion += 50
            record.cover(.foreignAnswer)
            return answer
        case .foreignDataset:
            guard request.dataset != nil else { return try await deliver(request, by: account) }
            throw ExchangeFailure(
                kind: .history, status: 409, code: "otherDataset", message: "another data set",
                reachedServer: true)
        case .wire(let wire):
            let answer = try await deliver(request, by: account, wire: wire)
            record.violate("I14", "device \(device): an answer with \(wire) was taken")
            return answer
        case .hang:
            try await wait(120_000)
            throw ExchangeFailure(kind: .network, message: "no answer in 120 s", reachedServer: true)
        }
    }

    /// Whether a copy that the network holds is due.
    var hasDueCopies: Bool { copies.contains { $0.at <= clock.now.elapsed } }

    /// Hands what the network still holds to the server; nobody hears the answers.
    func deliverCopies() async {
        let due = copies.filter { $0.at <= clock.now.elapsed }
        copies.removeAll { $0.at <= clock.now.elapsed }
        for copy in due {
            record.note("device \(device) late copy \(copy.request.summary)")
            do {
                let answer = try await server.answer(copy.request, device: device, account: copy.account, wire: nil)
                if answer.results.contains(where: \.isDuplicate) { record.cover(.lateCopyOfRequest) }
            } catch {
                record.note("late copy refused: \(error.kind.rawValue)")
            }
        }
    }

    private func deliver(
        _ request: ExchangeRequest, by account: String, wire: FaultTape.WireFault? = nil
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        do {
            var answer = try await server.answer(request, device: device, account: account, wire: wire)
            record.note("answer \(answer.summary)")
            try detail(&answer)
            record.heard(answer, of: request, device: device)
            for result in answer.results
            where result.isDuplicate && unheard.remove(result.changeID) != nil {
                record.cover(.duplicateAfterLostAnswer)
            }
            return answer
        } catch {
            record.note("failure \(error.kind.rawValue) \(error.code ?? "")")
            if error.status == 413 { record.cover(.requestTooLarge) }
            if error.code == "checkpointExpired" { record.cover(.expiredCheckpoint) }
            throw error
        }
    }

    /// Versions and records, for who reads the trace.
    private func detail(_ answer: inout ExchangeAnswer) throws(ExchangeFailure) {
        guard record.isRead else { return }
        record.detail(answer.results.map(\.detail).joined(separator: " "))
        let records = try answer.page.next(maxRecords: .max, maxBytes: .max)
        answer.page = ArrayPage(records)
        record.detail(records.map(\.detail).joined(separator: ", "))
    }

    private func wait(_ milliseconds: Int64) async throws(ExchangeFailure) {
        do {
            try await clock.sleep(for: .milliseconds(milliseconds))
        } catch {
            // Only cancellation ends a sleep early.
            throw ExchangeFailure(kind: .network, message: "cancelled", isCancelled: true)
        }
    }
}

extension FaultTape.RequestFault {
    /// The kind, without figures.
    var name: String {
        switch self {
        case .latency: "latency"
        case .lostRequest: "lost request"
        case .lostAnswer: "lost answer"
        case .duplicated: "duplicated"
        case .replayedLater: "replayed later"
        case .status(let status, _): "status \(status)"
        case .missingVerdicts: "missing verdicts"
        case .shortPage: "short page"
        case .backoff: "backoff"
        case .foreignEpoch: "foreign epoch"
        case .foreignDataset: "foreign data set"
        case .wire(let wire): wire.rawValue
        case .hang: "hang"
        }
    }
}

extension ExchangeRequest {
    /// What a trace says of it: keys and positions, no contents.
    var summary: String {
        let keys = changes.map {
            "\($0.sequence):\($0.id.suffix(6)):\($0.operation.rawValue.prefix(1)):\($0.record)"
        }
        return
            "\(cycleID.suffix(8)) from \(lastSyncVersion) epoch \(epoch ?? "-") settled \(settled ?? -1)"
            + (scopes.map { " of \($0.sorted { $0.key < $1.key }.map { "\($0.key.suffix(6)):\($0.value)" })" } ?? "")
            + "\(fullPass ? " full" : "") limit \(limit) [\(keys.joined(separator: " "))]"
    }
}

extension ExchangeAnswer {
    var summary: String {
        let verdicts = results.map {
            "\($0.changeID.suffix(6)):\($0.verdict.name)\($0.isDuplicate ? "*" : "")"
        }
        return "to \(currentSyncVersion)\(hasMore ? "+" : "") of \(epoch), \(page.count) records"
            + " [\(verdicts.joined(separator: " "))]"
    }
}

extension ServerRecord {
    var detail: String { "\(key)@\(version)\(presence == .live ? "" : " \(presence)")" }
}

extension ChangeResult {
    var detail: String {
        switch verdict {
        case .applied(let version, _, _): "\(changeID.suffix(6)):\(version.map(String.init) ?? "-")"
        case .merged(let record), .conflict(let record): "\(changeID.suffix(6)):\(record.detail)"
        default: "\(changeID.suffix(6))"
        }
    }
}

extension Verdict {
    var name: String {
        switch self {
        case .applied: "applied"
        case .merged: "merged"
        case .conflict: "conflict"
        case .rejected(let rejection): "rejected/\(rejection.code.rawValue)"
        case .blocked: "blocked"
        case .retry: "retry"
        }
    }
}
