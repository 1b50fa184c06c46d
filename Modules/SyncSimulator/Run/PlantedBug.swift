import Foundation
import SyncCore
import SyncTesting

/// A mistake that is planted on purpose, to see that the simulator finds it.
public enum PlantedBug: String, Sendable, Hashable, CaseIterable {
    /// A change that is sent again gets a new key.
    case newKeyOnRetry
    /// A verdict that is missing is taken as `applied`.
    case missingVerdictAsApplied
    /// A failed request is taken as if all of it had been applied.
    case failureAsApplied
    /// What a server that failed inside (5xx) was sent is deleted from the queue, as if it had been applied.
    case deleteOnServerError
    /// A page's records are dropped, and its checkpoint kept.
    case checkpointWithoutRows
    /// The last record of each page is lost.
    case lastRecordOfPageLost
    /// Tombstones are not taken.
    case tombstonesIgnored
    /// `hasMore` is not looked at.
    case hasMoreIgnored
    /// An answer of another epoch is taken as one of the present epoch.
    case foreignEpochAccepted
    /// An answer of another data set is taken as one of the known data set.
    case foreignDatasetAccepted
    /// After a request that failed nothing starts by itself any more.
    case noRescheduleAfterThrow
    /// `merged` is taken as `applied`.
    case mergedAsApplied
    /// A refusal is taken as `applied`.
    case rejectionAsApplied
    /// `retry` is taken as a refusal.
    case retryAsRejection
    /// The stamp of a change is made anew at each sending.
    case stampAtSending
    /// `baseVersion` is filled in anew at each sending.
    case baseVersionAtSending
    /// `settled` runs ahead of what is decided.
    case settledTooHigh
    /// Changes are sent in reversed order.
    case reversedOrder
    /// The second half of each batch is sent before the first.
    case halvesSwapped
    /// A later change of a record overwrites an earlier one in the batch, and both are taken as done.
    case dropsDuplicateRecords
    /// The server's stamp is not looked at.
    case stampNotObserved
    /// A new epoch is taken over without a full pass.
    case epochTakenOver
    /// Fields that are null are left out of what is sent.
    case nullsNotSent
    /// Deletes are sent as updates of nothing.
    case deletesNotSent
    /// Sums are sent as plain writes.
    case sumsAsPlainWrites
    /// `old` of a field under `check` is taken from what the server says.
    case checkNotChecked

    /// `clamped` is not looked at.
    case clampIgnored
    /// What an applied change overwrote is not journalled.
    case overwroteIgnored
    /// `conflict` is taken as `applied`.
    case conflictAsApplied
    /// `blocked` is taken as `applied`.
    case blockedAsApplied
    /// The members of a unit are sent as if each were alone.
    case unitTornApart
    /// The checkpoint is one ahead of the page.
    case checkpointAhead
    /// The triggers do not see updates of cards.
    case updatesNotCaptured
    /// Each eleventh change leaves the queue as it is made.
    case changeLost
    /// What the engine applies is captured, too.
    case captureDuringApply
    /// The reasons of what was set aside are not kept.
    case reasonsNotKept
    /// The journal of conflicts is not kept.
    case journalNotKept
    /// A tombstone takes the record's unsent changes along.
    case tombstoneTakesQueue
    /// Held versions do not move with what is applied.
    case versionsNotMoved
    /// Edits that lay aside bring back what was deleted later, and is dead by the server's word.
    case deathsForgotten

    /// A file that was synced takes its own account for another one, and does not open again.
    case fileRefused
    /// Of two edits that are merged, only the later one's fields are sent.
    case mergedFieldsNotSent

    /// The id that the server gave to a record is not kept.
    case namesNotKept
    /// It is not looked at.
    case namesIgnored

    /// Who syncs a file keeps no other process from it.
    case leaseIgnored

    /// Another process of an app does not hear that its user has signed out.
    case signOutUnheard

    /// Who waits for a record to be settled is not told.
    case settledUnheard
    /// What the user wants of the network is not looked at.
    case conditionsIgnored
    /// What is held back is sent.
    case heldBackSent
    /// Handlers are not told of each fifth version.
    case handlersUntold

    /// Who signs out leaves everything behind.
    case wipeForgotten
    /// A device does not notice that its files are another one's.
    case copyUnnoticed
    /// A device does not notice that the power was gone.
    case powerLossUnnoticed
    /// Who closes its files does not note that beside them.
    case closingUnnoted
    /// The server answers before what it did is on the disk, and dies.
    case serverForgetsLastCommit

    /// What makes the mistake inside the device's database, where it is one of the store's.
    var sql: String? {
        switch self {
        case .updatesNotCaptured: "DROP TRIGGER IF EXISTS sync_capture_card_update"
        case .changeLost:
            """
            CREATE TRIGGER IF NOT EXISTS planted AFTER INSERT ON sync_change WHEN NEW.sequence % 11 = 0
            BEGIN DELETE FROM sync_change WHERE position = NEW.position; END
            """
        case .captureDuringApply:
            """
            CREATE TRIGGER IF NOT EXISTS planted AFTER UPDATE OF applying ON sync_clock WHEN NEW.applying = 1
            BEGIN UPDATE sync_clock SET applying = 0; END
            """
        case .reasonsNotKept:
            """
            CREATE TRIGGER IF NOT EXISTS planted AFTER INSERT ON sync_failure
            BEGIN DELETE FROM sync_failure WHERE key = NEW.key; END
            """
        case .journalNotKept:
            """
            CREATE TRIGGER IF NOT EXISTS planted AFTER INSERT ON sync_conflict
            BEGIN DELETE FROM sync_conflict WHERE number = NEW.number; END
            """
        case .tombstoneTakesQueue:
            """
            CREATE TRIGGER IF NOT EXISTS planted AFTER INSERT ON sync_held WHEN NEW.reason = 'unsent'
            BEGIN DELETE FROM sync_change WHERE state = 0; END
            """
        case .namesNotKept:
            """
            CREATE TRIGGER IF NOT EXISTS planted AFTER INSERT ON sync_identity
            BEGIN DELETE FROM sync_identity WHERE entity = NEW.entity AND id = NEW.id; END
            """
        case .leaseIgnored:
            """
            CREATE TRIGGER IF NOT EXISTS planted AFTER UPDATE OF holder ON sync_lease
            BEGIN UPDATE sync_lease SET holder = NULL, expires = NULL; END
            """
        case .signOutUnheard:
            """
            CREATE TRIGGER IF NOT EXISTS planted AFTER INSERT ON sync_meta WHEN NEW.key = 'signOut'
            BEGIN DELETE FROM sync_meta WHERE key = 'signOut'; END
            """
        case .heldBackSent:
            """
            CREATE TRIGGER IF NOT EXISTS planted AFTER INSERT ON sync_draft WHEN NEW.kind = 1
            BEGIN DELETE FROM sync_draft WHERE entity = NEW.entity AND id = NEW.id; END
            """
        case .versionsNotMoved:
            """
            CREATE TRIGGER IF NOT EXISTS planted AFTER UPDATE OF version ON sync_record WHEN NEW.version > OLD.version
            BEGIN UPDATE sync_record SET version = OLD.version - 1 WHERE entity = NEW.entity AND id = NEW.id; END
            """
        case .deathsForgotten:
            ["INSERT", "UPDATE OF base"].map { event in
                """
                CREATE TRIGGER IF NOT EXISTS "planted \(event)" AFTER \(event) ON sync_record
                WHEN NEW.base ->> '$.death' IS NOT NULL
                BEGIN UPDATE sync_record SET base = json_remove(base, '$.death')
                  WHERE entity = NEW.entity AND id = NEW.id; END;
                """
            }.joined()
        case .fileRefused:
            """
            CREATE TRIGGER IF NOT EXISTS planted AFTER UPDATE OF value ON sync_meta
            WHEN NEW.key = 'checkpoint' AND NEW.value >= 20
            BEGIN UPDATE sync_meta SET value = 'other' WHERE key = 'account'; END
            """
        default: nil
        }
    }

    /// Whether a seed has what the mistake is about, as far as few seeds have that: the others need not be run for it.
    func canShow(in seed: UInt64) -> Bool {
        guard self == .leaseIgnored || self == .signOutUnheard else { return true }
        let workload = WorkloadTape(seed: seed)
        let tape = FaultTape(seed: seed, devices: workload.devices, duration: workload.duration)
        var (shared, left): (Set<Int>, Set<Int>) = ([], [])
        for entry in tape.entries {
            switch entry.fault {
            case .timed(_, .secondProcess(let device, _, _, _)): shared.insert(device)
            case .timed(_, .signOut(let device, _, _)): left.insert(device)
            default: break
            }
        }
        return self == .leaseIgnored ? !shared.isEmpty : !shared.isDisjoint(with: left)
    }

    /// Whether it stands between the engine and its exchange.
    var isInExchange: Bool {
        sql == nil
            && ![
                .serverForgetsLastCommit, .powerLossUnnoticed, .wipeForgotten, .copyUnnoticed, .closingUnnoted,
                .settledUnheard, .conditionsIgnored, .handlersUntold,
            ].contains(self)
    }

    /// Turns on what seeds must have for the mistake to be one.
    func prepare(_ options: inout SimulationOptions) {
        switch self {
        case .settledUnheard: options.waitsForSettled = true
        case .conditionsIgnored: options.hasConditions = true
        case .heldBackSent: options.hasDrafts = true
        case .handlersUntold: options.hasHandlers = true
        default: break
        }
    }
}

/// An exchange with a planted mistake: what the engine above it would do wrong if it were its own.
final class BuggyExchange: Exchange, @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor.
    private let inner: any Exchange
    private let bug: PlantedBug
    private let stall: StallingClock.Switch
    private var sentBefore: Set<String> = []
    private var epoch: String?
    private var counter = 0

    init(_ inner: any Exchange, bug: PlantedBug, _ stall: StallingClock.Switch) {
        self.inner = inner
        self.bug = bug
        self.stall = stall
    }

    func close() async { await inner.close() }

    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        var names: [String: String] = [:]
        let sent = disturb(request, &names)
        do {
            var answer = try await inner.exchange(sent)
            stall.isStalled = false
            if !names.isEmpty {
                answer.results = answer.results.map { result in
                    var result = result
                    result.changeID = names[result.changeID] ?? result.changeID
                    return result
                }
            }
            return try disturb(answer, of: request)
        } catch {
            stall.isStalled = true
            switch (bug, error.code) {
            case (.failureAsApplied, _) where error.kind == .network, (.deleteOnServerError, _) where error.isServers:
                guard let epoch = request.epoch, !request.changes.isEmpty else { throw error }
                return ExchangeAnswer(
                    dataset: request.dataset, epoch: epoch, currentSyncVersion: request.lastSyncVersion,
                    results: request.changes.map(Self.applied), page: ArrayPage([]))
            case (.epochTakenOver, "epochChanged"?):
                epoch = error.epoch
                var again = request
                again.epoch = error.epoch
                again.lastSyncVersion = 0
                var answer = try await inner.exchange(again)
                answer.epoch = request.epoch ?? answer.epoch
                answer.currentSyncVersion = max(answer.currentSyncVersion, request.lastSyncVersion)
                return answer
            default: throw error
            }
        }
    }

    private static func applied(_ change: Change) -> ChangeResult {
        ChangeResult(
            changeID: change.id, verdict: .applied(version: nil, overwrote: [:], serverID: nil))
    }

    private func disturb(_ request: ExchangeRequest, _ names: inout [String: String])
        -> ExchangeRequest
    {
        var request = request
        switch bug {
        case .newKeyOnRetry:
            for place in request.changes.indices
            where !sentBefore.insert(request.changes[place].id).inserted {
                counter += 1
                let name = request.changes[place].id
                request.changes[place].id = String(name.dropLast(4)) + String(counter + 10_000).suffix(4)
                names[request.changes[place].id] = name
            }
        case .stampAtSending:
            for place in request.changes.indices {
                counter += 1
                request.changes[place].stamp = Stamp(
                    packed: request.changes[place].stamp.packed + UInt64(counter) << 20)
            }
        case .baseVersionAtSending:
            for place in request.changes.indices {
                request.changes[place].baseVersion = request.lastSyncVersion
            }
        case .settledTooHigh:
            if let last = request.changes.last { request.settled = last.sequence + 3 }
        case .reversedOrder: request.changes.reverse()
        case .halvesSwapped:
            let half = request.changes.count / 2
            request.changes = Array(request.changes.dropFirst(half) + request.changes.prefix(half))
        case .dropsDuplicateRecords:
            var seen: Set<RecordKey> = []
            request.changes = request.changes.filter { seen.insert($0.record).inserted }
        case .nullsNotSent:
            for place in request.changes.indices where request.changes[place].operation == .update {
                let kept = request.changes[place].fields.filter { !$0.value.new.isNull }
                if !kept.isEmpty { request.changes[place].fields = kept }
            }
        case .mergedFieldsNotSent:
            // A field that an edit brought which was merged into a later one has a stamp of its own.
            for place in request.changes.indices where request.changes[place].operation == .update {
                let kept = request.changes[place].fields.filter { $0.value.stamp == nil }
                if !kept.isEmpty { request.changes[place].fields = kept }
            }
        case .unitTornApart: for place in request.changes.indices { request.changes[place].unit = nil }
        case .deletesNotSent: request.changes.removeAll { $0.operation == .delete }
        case .sumsAsPlainWrites, .checkNotChecked:
            let rule: MergeRule = bug == .sumsAsPlainWrites ? .sum : .check
            for place in request.changes.indices {
                for name in request.changes[place].fields.keys
                where request.changes[place].fields[name]?.rule == rule {
                    request.changes[place].fields[name]?.rule = .lastWriter
                }
            }
        case .epochTakenOver: if epoch != nil { request.epoch = epoch }
        default: break
        }
        return request
    }

    private func disturb(
        _ answer: ExchangeAnswer, of request: ExchangeRequest
    ) throws(ExchangeFailure) -> ExchangeAnswer {
        var answer = answer
        let answered = Set(answer.results.map(\.changeID))
        switch bug {
        case .missingVerdictAsApplied, .dropsDuplicateRecords, .deletesNotSent:
            answer.results += request.changes.filter { !answered.contains($0.id) }.map(Self.applied)
        case .mergedAsApplied, .rejectionAsApplied, .retryAsRejection, .clampIgnored, .overwroteIgnored,
            .conflictAsApplied, .blockedAsApplied, .namesIgnored:
            answer.results = answer.results.map(misread)
        case .foreignDatasetAccepted: answer.dataset = request.dataset ?? answer.dataset
        case .foreignEpochAccepted: if let epoch = request.epoch { answer.epoch = epoch }
        case .checkpointWithoutRows:
            counter += 1
            if counter % 5 == 0 { answer.page = ArrayPage([]) }
        case .lastRecordOfPageLost:
            let records = try answer.page.next(maxRecords: .max, maxBytes: .max)
            answer.page = ArrayPage(records.count > 1 ? Array(records.dropLast()) : records)
        case .tombstonesIgnored:
            let records = try answer.page.next(maxRecords: .max, maxBytes: .max)
            answer.page = ArrayPage(records.filter { $0.presence == .live })
        case .hasMoreIgnored:
            if answer.hasMore {
                answer.hasMore = false
                answer.currentSyncVersion += 1
            }
        case .checkpointAhead: if answer.page.count > 0 { answer.currentSyncVersion += 1 }
        case .stampNotObserved: answer.stamp = nil
        case .epochTakenOver: if let epoch = request.epoch { answer.epoch = epoch }
        default: break
        }
        return answer
    }

    private func misread(_ result: ChangeResult) -> ChangeResult {
        var result = result
        switch (bug, result.verdict) {
        case (.mergedAsApplied, .merged(let record)):
            result.verdict = .applied(version: record.version, overwrote: [:], serverID: nil)
        case (.rejectionAsApplied, .rejected):
            result.verdict = .applied(version: nil, overwrote: [:], serverID: nil)
        case (.clampIgnored, _): result.isClamped = false
        case (.namesIgnored, .applied(let version, let overwrote, _)):
            result.verdict = .applied(version: version, overwrote: overwrote, serverID: nil)
        case (.overwroteIgnored, .applied(let version, _, let serverID)):
            result.verdict = .applied(version: version, overwrote: [:], serverID: serverID)
        case (.conflictAsApplied, .conflict), (.blockedAsApplied, .blocked):
            result.verdict = .applied(version: nil, overwrote: [:], serverID: nil)
        case (.retryAsRejection, .retry):
            result.verdict = .rejected(Rejection(code: .invalid, message: "planted"))
        default: break
        }
        return result
    }
}

extension ExchangeFailure {
    /// Whether the server answered that it failed.
    fileprivate var isServers: Bool { status.map { (500...599).contains($0) } ?? false }
}
