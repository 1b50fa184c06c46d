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
    private let ids: CanonicalIDs
    /// By the number of the request, counted over the device's whole life.
    var faults: [Int: FaultTape.RequestFault] = [:]
    var isOffline = false
    /// Nothing goes wrong any more.
    var isHealed = false
    /// Hears that the server did something for an account, and its version since.
    var onDone: (_ account: String, _ version: Int64) -> Void = { _, _ in }
    /// Whose token the device has.
    var account = SimulatedDevice.account
    /// What becomes of every request, while the server is in trouble.
    var storm: FaultTape.Storm?
    /// When the device last heard that it has everything, after a request that was not spoiled.
    private(set) var lastWhole: Duration?
    /// What it proves with who it is.
    let tokens = DeviceTokens()
    /// Nothing leaves a dead process; the numbers of the living ones.
    private(set) var living: Set<Int> = []
    private(set) var requests = 0
    /// Requests that the network still holds: copies, and such as nobody waits for any more.
    private var kept: [Kept] = []
    /// The number of the newest request with changes that arrived.
    private var newestArrived = 0
    /// Sees each answer that came through to the engine.
    var onAnswer: (ExchangeAnswer, ExchangeRequest, _ isOvertaken: Bool) -> Void = { _, _, _ in }
    /// Whether a process that asks keeps its lease meanwhile.
    var keepsLease: (_ process: Int) -> Bool = { _ in true }
    /// Whether another process has the lease of the file.
    var isAnothers: (_ process: Int) -> Bool = { _ in false }
    /// Who waits for an answer, and has not stood still since it asked; with how often the disk had struck by then.
    private var askingProcesses: [Int: Int] = [:]
    /// Whether a request is under way.
    var isAsked: Bool { !askingProcesses.isEmpty }
    /// How often the disk has struck: what fails to be written may be a lease's being prolonged.
    var strikes: () -> Int = { 0 }
    /// Those that stood still and have not asked since, with the lease that was taken then.
    private var stoodWith: [Int: Int64] = [:]
    /// Which lease of its file is taken just now, where several processes have that.
    var lease: () -> Int64? = { nil }
    /// Sees the records that the engine reads of the pages of such answers.
    var onRecords: ([ServerRecord]) -> Void = { _ in }
    /// Sees each request that came to nothing, before the engine hears of it.
    var onFailure: (ExchangeRequest) -> Void = { _ in }
    /// Keys whose effect the server has and of which the device heard nothing.
    private var unheard: Set<String> = []

    /// A request that the network holds until it arrives.
    private struct Kept {
        let at: Duration
        let request: ExchangeRequest
        let account: String
        /// Its number, where it has not arrived before.
        var first: Int?
        var isSingle = false
    }

    init(
        device: Int, server: any SimulatedServer, clock: VirtualClock, record: Record,
        ids: CanonicalIDs = CanonicalIDs()
    ) {
        self.device = device
        self.ids = ids
        self.server = server
        self.clock = clock
        self.record = record
        tokens.onRefresh = { [record, device] isRenewed in
            record.note("device \(device) \(isRenewed ? "has a new token" : "has no token")")
            record.struck("expired token")
            record.cover(isRenewed ? .renewedToken : .expiredToken)
        }
    }

    func begin(_ process: Int) { living.insert(process) }
    func end(_ process: Int) { living.remove(process) }
    func endAll() { living = [] }

    /// The network as one process sees it; a process that died gets nothing through.
    /// - Parameters:
    ///   - isSingle: its changes go alone, in the REST dialect.
    ///   - onRequest: hears of each request before it leaves.
    func port(of process: Int, isSingle: Bool = false, onRequest: @escaping () -> Void = {}) -> Port {
        Port(network: self, process: process, account: account, isSingle: isSingle, onRequest: onRequest)
    }

    struct Port: Exchange, @unchecked Sendable {
        // Sendable: used by the one thread that drives the executor.
        let network: DeviceNetwork
        let process: Int
        let account: String
        let isSingle: Bool
        let onRequest: () -> Void
        private var isAlive: Bool { network.living.contains(process) }

        func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
            guard isAlive else { throw .unreachable }
            let sender = Sender(
                account: account, device: network.device, process: process, lease: network.lease(), isSingle: isSingle)
            network.leaves(sender)
            onRequest()
            defer { network.askingProcesses[process] = nil }
            var answer: ExchangeAnswer
            do { answer = try await network.exchange(request, by: sender) } catch {
                if isAlive { network.onFailure(network.ids.request(request)) }
                throw error
            }
            guard isAlive else { throw .unreachable }
            // What another deployment says, nobody here was told.
            guard !answer.isForeign(to: request) else { return answer }
            if !answer.hasMore { network.lastWhole = network.clock.now.elapsed }
            network.onAnswer(
                network.ids.verdicts(answer, of: request), network.ids.request(request), network.isOvertaken(sender))
            answer.page = HeardPage(page: answer.page) { if isAlive { network.onRecords($0.map(network.ids.record)) } }
            return answer
        }
        func close() async {}
    }

    func close() async {}

    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        try await exchange(request, by: Sender(account: account, device: device, process: 0, lease: lease()))
    }

    /// Who sends a request.
    private struct Sender {
        let account: String
        let device: Int
        let process: Int
        /// The lease under which it leaves.
        let lease: Int64?
        var isSingle = false
        /// Each process has connections of its own.
        var connection: Int { process > SecondProcess.firstNumber ? device + SecondProcess.firstNumber : device }
    }

    /// One process syncs a file at a time, unless the other stands still: what that one waits for comes too late then, and what it had
    /// made ready to follow.
    private func leaves(_ sender: Sender) {
        // Who was overtaken may send what it had made ready, also while nobody has the lease (seed 13613).
        if let stood = stoodWith.removeValue(forKey: sender.process), stood != sender.lease { return }
        guard !isAnothers(sender.process) else { return }
        let others = askingProcesses.filter { process, _ in
            process != sender.process && living.contains(process) && keepsLease(process)
        }
        // Who could not write meanwhile could not prolong its lease.
        if others.values.contains(strikes()) {
            record.violate("lease", "device \(device): two processes sync one file at once")
        }
        askingProcesses = [sender.process: strikes()]
    }

    /// A process stands still from now on: its lease may run out before it asks again.
    func stands(_ process: Int) {
        askingProcesses[process] = nil
        stoodWith[process] = lease()
    }

    /// Whether another process has taken the file over since.
    private func isOvertaken(_ sender: Sender) -> Bool { sender.lease != lease() }

    private func exchange(
        _ request: ExchangeRequest, by sender: Sender
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        requests += 1
        let number = requests
        record.note("device \(device) request \(number) \(request.summary)")
        record.saw(ids.request(request), from: device)
        guard !isOffline else {
            record.struck("offline")
            record.cover(.offline)
            throw .unreachable
        }
        // Where there is no codec, nobody but this asks for the token.
        if !server.asksForTokens {
            let isValid: Bool
            do { isValid = try await tokens.present() } catch { isValid = false }
            guard isValid else { throw .status(401, code: "unauthorized", retryAfter: nil) }
        }
        if let storm { return try await suffer(storm, request, number, by: sender) }
        guard let fault = faults[number], !sender.isSingle || fault.strikesSingle else {
            return try await deliver(request, number, by: sender)
        }
        record.note("device \(device) request \(number) \(fault)")
        return try await suffer(fault, request, number, by: sender)
    }

    private func arrived(_ request: ExchangeRequest, _ number: Int) {
        if !request.changes.isEmpty { newestArrived = max(newestArrived, number) }
    }

    private func suffer(
        _ storm: FaultTape.Storm, _ request: ExchangeRequest, _ number: Int, by sender: Sender
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        switch storm {
        case .status(let status, let retryAfter): throw .status(status, code: nil, retryAfter: retryAfter)
        case .timeOut(let isDone):
            if isDone { lose(try await deliver(request, number, by: sender)) }
            try await wait(60_000)
            throw ExchangeFailure(kind: .network, message: "no answer in 60 s", reachedServer: true)
        }
    }

    private func suffer(
        _ fault: FaultTape.RequestFault, _ request: ExchangeRequest, _ number: Int, by sender: Sender
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        switch fault {
        case .latency(let there, let back):
            if there + back > 0 { record.struck(fault.name) }
            try await wait(there)
            let answer = try await deliver(request, number, by: sender)
            try await wait(back)
            return answer
        case .lostRequest:
            record.struck(fault.name)
            throw ExchangeFailure(kind: .network, message: "the request was lost", reachedServer: false)
        case .lostAnswer:
            let answer = try await deliver(request, number, by: sender)
            record.struck(fault.name)
            lose(answer)
            throw ExchangeFailure(
                kind: .network, message: "the connection died", reachedServer: true, isBrokenOff: true)
        case .duplicated:
            _ = try await deliver(request, number, by: sender)
            record.struck(fault.name)
            return try await deliver(request, number, by: sender)
        case .replayedLater(let milliseconds):
            keep(request, for: milliseconds, sender)
            return try await deliver(request, number, by: sender)
        case .arrivesLate(let milliseconds, let patience):
            record.struck(fault.name)
            keep(request, for: patience + milliseconds, sender, first: number)
            try await wait(patience)
            throw ExchangeFailure(kind: .network, message: "no answer in \(patience) ms", reachedServer: true)
        case .status(let status, let retryAfter):
            record.struck(fault.name)
            guard sender.isSingle else { throw .status(status, code: nil, retryAfter: retryAfter) }
            return try await deliver(
                request, number, by: sender, Way(isSingle: true, status: (status, retryAfter)))
        case .missingVerdicts(let bits):
            var answer = try await deliver(request, number, by: sender)
            let before = answer.results.count
            answer.results = answer.results.enumerated().filter {
                bits >> UInt64($0.offset % 64) & 1 == 0
            }
            .map(\.element)
            if answer.results.count < before {
                record.struck(fault.name)
                record.cover(.missingVerdict)
            }
            return answer
        case .shortPage(let limit):
            var shorter = request
            shorter.limit = limit
            let answer = try await deliver(shorter, number, by: sender)
            if answer.hasMore {
                record.struck(fault.name)
                record.cover(.severalPages)
            }
            return answer
        case .backoff(let seconds):
            var answer = try await deliver(request, number, by: sender)
            answer.backoffSeconds = seconds
            if sender.isSingle {
                for place in answer.results.indices { answer.results[place].backoffSeconds = seconds }
            }
            if seconds > 0 { record.struck(fault.name) }
            return answer
        case .foreignEpoch:
            var answer = try await deliver(request, number, by: sender)
            guard request.epoch != nil else { return answer }
            answer.epoch += "-foreign"
            // Another history has other records and other versions.
            answer.page = ArrayPage([])
            answer.currentSyncVersion += 50
            record.struck(fault.name)
            record.cover(.foreignAnswer)
            return answer
        case .foreignDataset:
            guard request.dataset != nil else { return try await deliver(request, number, by: sender) }
            record.struck(fault.name)
            throw ExchangeFailure(
                kind: .history, status: 409, code: "otherDataset", message: "another data set",
                reachedServer: true)
        case .otherDeployment:
            guard let known = request.dataset, let epoch = request.epoch else {
                return try await deliver(request, number, by: sender)
            }
            record.struck(fault.name)
            record.cover(.otherDeployment)
            return Self.answerOfCopy(to: request, dataset: known + "-staging", epoch: epoch)
        case .wire(let wire) where !server.answersInBytes:
            lose(try await deliver(request, number, by: sender))
            // Where no bytes come back, none can be spoiled.
            record.struck(FaultTape.RequestFault.lostAnswer.name)
            // A transport lets nothing of it through: for the engine there was no answer.
            throw ExchangeFailure(kind: .network, message: wire.rawValue, reachedServer: true)
        case .wire(let wire):
            let answer: ExchangeAnswer
            do {
                answer = try await deliver(request, number, by: sender, Way(isSingle: sender.isSingle, fault: wire))
            } catch {
                // What the server itself refuses has no answer to be spoilt; one that is none is of a 200, or of nothing.
                if error.kind != .history, (200..<300).contains(error.status ?? 200) { record.struck(fault.name) }
                throw error
            }
            // What was refused has an answer of another kind, which came as it was; and a probe has heard that the server lives.
            if sender.isSingle, !answer.results.contains(where: \.isDone) { return answer }
            record.violate("I14", "device \(device): an answer with \(wire) was taken")
            return answer
        case .hang:
            record.struck(fault.name)
            try await wait(120_000)
            throw ExchangeFailure(kind: .network, message: "no answer in 120 s", reachedServer: true)
        }
    }

    /// What the server did is done, and nobody hears of it.
    private func lose(_ answer: ExchangeAnswer) {
        if !answer.results.isEmpty { record.cover(.answerLostAfterCommit) }
        unheard.formUnion(answer.results.filter { $0.verdict.isDecided }.map(\.changeID))
    }

    private func keep(
        _ request: ExchangeRequest, for milliseconds: Int64, _ sender: Sender, first number: Int? = nil
    ) {
        let at = clock.now.elapsed + .milliseconds(milliseconds)
        kept.append(
            Kept(at: at, request: request, account: sender.account, first: number, isSingle: sender.isSingle))
    }

    /// Another deployment with the same interface, made from a copy of this one: it has done everything, and has records of its
    /// own (NET-22).
    private static func answerOfCopy(
        to request: ExchangeRequest, dataset: String, epoch: String
    ) -> ExchangeAnswer {
        let version = request.lastSyncVersion + 50
        let results = request.changes.map {
            ChangeResult(changeID: $0.id, verdict: .applied(version: version, overwrote: [:], serverID: nil))
        }
        let gone = request.changes.map { ServerRecord(key: $0.record, version: version, presence: .deleted) }
        return ExchangeAnswer(
            dataset: dataset, epoch: epoch, currentSyncVersion: version, results: results, page: ArrayPage(gone))
    }

    /// Whether something that the network holds is due.
    var hasDueCopies: Bool { kept.contains { $0.at <= clock.now.elapsed } }

    /// Hands what the network still holds to the server; nobody hears the answers.
    func deliverCopies() async {
        let due = kept.filter { $0.at <= clock.now.elapsed }
        kept.removeAll { $0.at <= clock.now.elapsed }
        for copy in due {
            record.note("device \(device) late copy \(copy.request.summary)")
            if copy.first == nil { record.struck("replayed later") }
            if let first = copy.first, !copy.request.changes.isEmpty {
                if first < newestArrived { record.cover(.reorderedRequest) }
                arrived(copy.request, first)
            }
            do {
                let answer = try await server.answer(
                    copy.request, device: device, account: copy.account, tokens: nil, way: Way(isSingle: copy.isSingle))
                if answer.results.contains(where: \.isDuplicate) { record.cover(.lateCopyOfRequest) }
                if copy.first != nil, answer.results.contains(where: { $0.verdict.isDecided && !$0.isDuplicate }) {
                    record.cover(.lateEffect)
                }
            } catch {
                record.note("late copy refused: \(error.kind.rawValue)")
            }
        }
    }

    private func deliver(
        _ request: ExchangeRequest, _ number: Int, by sender: Sender, _ way: Way? = nil
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        arrived(request, number)
        do {
            var answer = try await server.answer(
                request, device: sender.connection, account: sender.account, tokens: tokens,
                way: way ?? Way(isSingle: sender.isSingle))
            record.note("answer \(answer.summary)")
            try detail(&answer)
            record.heard(
                ids.verdicts(answer, of: request), of: ids.request(request), device: device,
                isOvertaken: isOvertaken(sender) || sender.isSingle)
            if answer.results.contains(where: { $0.verdict.isDecided && !$0.isDuplicate }) {
                onDone(sender.account, answer.currentSyncVersion)
            }
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

extension ExchangeAnswer {
    /// Whether another data set speaks than the one that was asked.
    fileprivate func isForeign(to request: ExchangeRequest) -> Bool {
        guard let known = request.dataset, let dataset else { return false }
        return known != dataset
    }
}

extension FaultTape.RequestFault {
    /// Whether it can strike a request with one change, whose answer has neither verdicts nor a page, and names no history.
    fileprivate var strikesSingle: Bool {
        switch self {
        case .missingVerdicts, .shortPage, .foreignEpoch, .foreignDataset, .otherDeployment: false
        default: true
        }
    }
}
