import SyncTesting

/// What goes wrong in a seed, and where: a list from which any entry can be left out without moving another.
public struct FaultTape: Sendable {
    /// What happens to one request of a device.
    public enum RequestFault: Sendable, Hashable {
        /// The request takes so long to arrive, and the answer so long to come back.
        case latency(there: Int64, back: Int64)
        case lostRequest
        /// The server has done it all, and nobody hears of it.
        case lostAnswer
        /// The network delivers the request twice; the second answer arrives.
        case duplicated
        /// A copy of the request arrives again, so many milliseconds later.
        case replayedLater(Int64)
        case status(Int, retryAfter: Double?)
        /// Verdicts are left out of the answer, those whose place has its bit set.
        case missingVerdicts(UInt64)
        /// A page of so few records.
        case shortPage(Int)
        /// The answer asks for a pause, in seconds.
        case backoff(Double)
        /// The answer speaks of another epoch without having said so by 410.
        case foreignEpoch
        /// Another deployment answers, and says so by 409.
        case foreignDataset
        /// One answers that takes the request for one of its own.
        case otherDeployment
        /// The device gives up after so many milliseconds (`patience`); the request gets there so many later, for the first time.
        case arrivesLate(Int64, patience: Int64)
        /// The server did it all, and its answer comes as no answer.
        case wire(WireFault)
        /// Neither answer nor end, until the time-out.
        case hang
    }

    /// What becomes of an answer's bytes.
    public enum WireFault: String, Sendable, Hashable, CaseIterable {
        case truncated = "truncated answer"
        case captivePortal = "captive portal"
        case wrongContentType = "wrong content type"
        case staleAnswer = "answer of an earlier request"
        case contradiction = "contradictory verdicts"
        case wrongCount = "wrong count"
    }

    /// What happens to a device at a point of its life.
    public enum DeviceFault: Sendable, Hashable {
        /// The process dies at this statement of its database, counted from the start of the seed.
        case crashAtStatement(Int)
        /// The disk fails from this statement on, for five times so many.
        case failingDisk(from: Int, count: Int)
        /// The disk fails once in the process with this number, from 1 on, when it was asked for that so often; `nil` is the first
        /// process with another version of the app.
        case failingOpening(number: Int?, DiskFailure, after: Int)
    }

    /// What happens at a time.
    public enum TimedFault: Sendable, Hashable {
        case crash(device: Int)
        case restart(device: Int)
        case suspended(device: Int, milliseconds: Int64)
        case offline(device: Int, milliseconds: Int64)
        case clockJump(device: Int, milliseconds: Int64)
        /// Another process holds the file's lock.
        case lockedFile(device: Int, milliseconds: Int64)
        /// The server's database is kept, to be restored from.
        case backup
        case restoredServer
        case forgottenTombstones
        /// A copy of the device's files is made, to be restored from.
        case deviceBackup(device: Int)
        case restoredDevice(device: Int)
        /// The device's files are copied, and a second device begins with them so many milliseconds later; with or without what
        /// stands beside the database.
        case clonedDevice(device: Int, rests: Int64, keepsNote: Bool)
        case pause(device: Int, milliseconds: Int64)
        /// The server does not take the device's token any more, until it has a new one.
        case expiredToken(device: Int, milliseconds: Int64)
        /// Another user signs in over this one's file.
        case otherAccount(device: Int)
        /// The app is updated to the version that the others have.
        case update(device: Int)
        /// The user signs out, after a sync or without one, and another one uses the device for so long.
        case signOut(device: Int, flushes: Bool, milliseconds: Int64)
        /// The power goes: what was not synced is lost, or a part of it.
        case powerLoss(device: Int)
        /// The user chooses which roots the device holds, by the bits of a number; everything by none.
        case scopes(device: Int, pick: UInt64?)
        /// The user moves something that is directly under a root to another one.
        case move(device: Int, record: UInt64)
        /// Another process of the app has the device's files open for so long beside the one that lives, may stand still amid a
        /// request, and is killed at its end or ends in order.
        case secondProcess(device: Int, milliseconds: Int64, stands: Standing?, isKilled: Bool)
        /// The device's file is damaged while nobody has it open, and opened again; the process may die so many statements later.
        case damagedFile(device: Int, Damage, pick: UInt64, crashAfter: Int?)
        /// The server fails for so long, whatever it is asked.
        case storm(Storm, milliseconds: Int64)
    }

    /// A process stands still for so long, from one of its requests on.
    public struct Standing: Sendable, Hashable {
        let request: Int
        let milliseconds: Int64
    }

    public enum Fault: Sendable, Hashable {
        case request(device: Int, number: Int, RequestFault)
        case device(Int, DeviceFault)
        case timed(atMilliseconds: Int64, TimedFault)
        /// Changes whose key has this remainder are refused, or put off, while faults last.
        case refusals(modulus: UInt64, remainder: UInt64)
        case deferrals(modulus: UInt64, remainder: UInt64)
        /// The device's app is one version behind, until it is updated.
        case olderApp(device: Int)
        /// The server's process dies.
        case server(ServerFault)
        /// The device's clock is off by this much, and drifts at this rate.
        case clock(device: Int, offset: Int64, rate: Double)
    }

    public struct Entry: Sendable, Hashable {
        public let number: Int
        public let fault: Fault
    }

    public let entries: [Entry]

    /// The tape of a seed for so many devices: a random subset of all kinds, at random rates.
    /// - Parameters:
    ///   - movesMuch: devices hold parts of the account in each seed, and much is moved between them.
    ///   - damagesFiles: most devices' files are damaged.
    ///   - bias: what requests meet more often than usual.
    public init(
        seed: UInt64, devices: Int, duration: Int64, movesMuch: Bool = false, damagesFiles: Bool = false,
        bias: TapeBias? = nil
    ) {
        var chance = SeededGenerator(seed: seed, .faults)
        var faults: [Fault] = []
        let requestRate = [0, 0.1, 0.25, 0.5][chance.below(4)]
        let menu = Self.requestMenu(&chance) + (bias?.faults ?? [])
        for device in 0..<devices {
            for number in 0..<150 where chance.chance(requestRate) {
                faults.append(.request(device: device, number: number, Self.requestFault(&chance, menu, bias)))
            }
            faults += Self.deviceFaults(device, &chance)
        }
        faults += Self.timedFaults(devices, duration, &chance)
        if chance.chance(0.35) {
            let modulus = UInt64(4 + chance.below(20))
            faults.append(.refusals(modulus: modulus, remainder: UInt64(chance.below(Int(modulus)))))
        }
        if chance.chance(0.25) {
            let modulus = UInt64(3 + chance.below(10))
            faults.append(.deferrals(modulus: modulus, remainder: UInt64(chance.below(Int(modulus)))))
        }
        faults += Self.serverFaults(seed)
        faults += Self.powerFaults(seed, devices, duration)
        faults += Self.accountFaults(seed, devices, duration)
        faults += Self.scopeFaults(seed, devices, duration, movesMuch)
        faults += Self.lateArrivals(seed, devices)
        faults += StormTape(seed: seed, duration: duration).faults
        faults += Self.cloneFaults(seed, devices, duration)
        faults += Self.diskFaults(seed, devices)
        faults += Self.secondProcessFaults(seed, devices, duration)
        if let bias { faults += Self.more(of: bias, seed, devices, duration) }
        if damagesFiles { faults += Self.damage(seed, devices, duration) }
        entries = faults.enumerated().map { Entry(number: $0.offset, fault: $0.element) }
    }

    private static func requestMenu(_ chance: inout SeededGenerator) -> [Int] {
        let all = Array(0..<14)
        let menu = all.filter { _ in chance.chance(0.5) }
        return menu.isEmpty ? all : menu
    }

    private static func requestFault(
        _ chance: inout SeededGenerator, _ menu: [Int], _ bias: TapeBias?
    ) -> RequestFault {
        switch chance.pick(menu) {
        case 0: return .latency(there: Int64(chance.below(3_000)), back: Int64(chance.below(3_000)))
        case 1: return .lostRequest
        case 2, 3: return .lostAnswer
        case 4: return chance.chance(0.5) ? .duplicated : .replayedLater(Int64(chance.below(60_000)))
        case 5:
            let status = chance.pick(bias?.statuses ?? [503, 500, 429, 408, 502, 413, 400, 404])
            return .status(status, retryAfter: chance.chance(0.3) ? Double(chance.below(30)) : nil)
        case 6: return .missingVerdicts(chance.next())
        case 7, 8: return .shortPage(1 + chance.below(4))
        case 9: return .backoff(Double(chance.below(20)))
        case 10: return chance.chance(0.8) ? .foreignEpoch : .foreignDataset
        case 11, 12: return .wire(chance.pick(WireFault.allCases))
        default: return .hang
        }
    }

    private static func deviceFaults(_ device: Int, _ chance: inout SeededGenerator) -> [Fault] {
        var faults: [Fault] = []
        if chance.chance(0.4) {
            for _ in 0..<(1 + chance.below(3)) {
                faults.append(.device(device, .crashAtStatement(100 + chance.below(3_500))))
            }
        }
        if chance.chance(0.3) {
            for _ in 0..<(1 + chance.below(3)) {
                faults.append(
                    .device(
                        device, .failingDisk(from: 100 + chance.below(4_000), count: 1 + chance.below(10))))
            }
        }
        if chance.chance(0.35) {
            let offset = Int64(chance.below(400_000)) - 200_000
            faults.append(.clock(device: device, offset: offset, rate: 1 + (chance.unit() - 0.5) * 0.01))
        }
        return faults
    }

    private static func timedFaults(
        _ devices: Int, _ duration: Int64, _ chance: inout SeededGenerator
    ) -> [Fault] {
        var faults: [Fault] = []
        func add(_ fault: TimedFault) {
            faults.append(.timed(atMilliseconds: Int64(chance.below(Int(duration))), fault))
        }
        for device in 0..<devices {
            let span = Int64(1_000 + chance.below(60_000))
            if chance.chance(0.3) { for _ in 0..<(1 + chance.below(2)) { add(.crash(device: device)) } }
            if chance.chance(0.3) { add(.restart(device: device)) }
            if chance.chance(0.2) { add(.suspended(device: device, milliseconds: span)) }
            if chance.chance(0.4) { add(.offline(device: device, milliseconds: span * 2)) }
            if chance.chance(0.2) {
                add(.clockJump(device: device, milliseconds: Int64(chance.below(4_000_000)) - 2_000_000))
            }
            if chance.chance(0.2) { add(.lockedFile(device: device, milliseconds: span / 10)) }
            if chance.chance(0.15) { add(.pause(device: device, milliseconds: span)) }
            if chance.chance(0.1) {
                add(.deviceBackup(device: device))
                add(.restoredDevice(device: device))
            }
        }
        if chance.chance(0.15) {
            add(.backup)
            add(.restoredServer)
        }
        if chance.chance(0.1) { add(.forgottenTombstones) }
        for device in 0..<devices {
            if chance.chance(0.15) {
                add(.expiredToken(device: device, milliseconds: Int64(1_000 + chance.below(60_000))))
            }
            if chance.chance(0.1) { add(.otherAccount(device: device)) }
            if chance.chance(0.12) {
                faults.append(.olderApp(device: device))
                add(.update(device: device))
            }
        }
        return faults
    }
}
