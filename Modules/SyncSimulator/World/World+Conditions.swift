import Orchestrator
import SyncCore
import SyncTesting

/// What a device's user wants of the network before anything goes, how the device is connected, and what its engine was told of that.
struct DeviceConditions {
    /// Before records go.
    let wanted: SyncGate.Conditions
    /// The platform's stream says how it is connected; `nil` where the app does.
    let platform: PathSwitch?
    /// `nil` where nobody knows.
    var path: NetworkPath? = NetworkPath(isReachable: true, link: "wifi")
    var isCharging = true
    /// Since when the engine of the present process knows; `nil` where that has not heard of it yet.
    var toldAt: Duration?
    /// Until when the user wants all to go, whatever is told.
    var overriddenUntil: Duration?

    init(seed: UInt64, device: Int) {
        var chance = SeededGenerator(seed: SeededGenerator.mixed(seed, UInt64(device)), .conditions)
        let all: [SyncGate.Conditions] = [
            .unmetered, [.unmetered, .notInLowDataMode], .charging, [.unmetered, .charging],
        ]
        wanted = chance.pick(all)
        platform = chance.chance(0.5) ? PathSwitch(path) : nil
    }

    /// Whether a request that leaves at this moment is one that the user does not want. What was told in the same moment may come too
    /// late for it.
    func forbids(at now: Duration) -> Bool {
        guard let toldAt, toldAt < now else { return false }
        return isUnmet && (overriddenUntil.map { $0 <= now } ?? true)
    }

    /// Whether the device is not where its user wants it to send.
    var isUnmet: Bool {
        if wanted.contains(.unmetered), path?.isMetered == true { return true }
        if wanted.contains(.notInLowDataMode), path?.isLowData == true { return true }
        return wanted.contains(.charging) && !isCharging
    }
}

/// Devices whose users want something of the network before anything goes.
extension World {
    /// How a device is connected changes, before a step's own action.
    func workOnConditions(_ step: WorkloadTape.Step, _ index: Int) {
        var chance = SeededGenerator(seed: SeededGenerator.mixed(seed, UInt64(step.number)), .conditions)
        switch chance.below(16) {
        case 0, 1, 2:
            let metered = chance.chance(0.6)
            // The same link may come to cost.
            let link = chance.pick(["wifi", "wifi", "cellular"])
            connect(
                index,
                NetworkPath(isReachable: true, isMetered: metered, isLowData: chance.chance(0.2), link: link))
        case 3: connect(index, NetworkPath(isReachable: false))
        case 4 where devices[index].conditions?.platform == nil: connect(index, nil)
        case 4, 5, 6:
            devices[index].conditions?.isCharging.toggle()
            tellConditions(index)
        case 7: override(index, milliseconds: Int64(5_000 + chance.below(300_000)))
        case 8: override(index, milliseconds: nil)
        default: break
        }
    }

    private func connect(_ index: Int, _ path: NetworkPath?) {
        devices[index].conditions?.path = path
        tellConditions(index)
    }

    /// The platform, or the app, says how the device is connected; the app says, too, whether it is charging.
    func tellConditions(_ index: Int) {
        let device = devices[index]
        guard let conditions = device.conditions else { return }
        // Until it is heard of, nothing is known of this.
        device.conditions?.toldAt = nil
        if let platform = conditions.platform, let path = conditions.path { platform.say(path) }
        let isTold: Void? = settle(index) { process in
            if conditions.platform == nil { await process.engine.noticed(conditions.path) }
            await process.engine.noticed(isCharging: conditions.isCharging)
        }
        guard isTold != nil, device.second == nil else { return }
        device.conditions?.toldAt = executor.clock.now.elapsed
        record.note("device \(index) is connected: \(conditions.words)")
        if device.network.isAsked, conditions.isUnmet { record.cover(.conditionsEnded) }
    }

    /// The user wants all to go for so long; or not any more.
    private func override(_ index: Int, milliseconds: Int64?) {
        let device = devices[index]
        let limit = milliseconds.map { Duration.milliseconds($0) }
        guard settle(index, { await $0.engine.overrideConditions(of: .records, for: limit) }) != nil else { return }
        record.note("device \(index) \(limit.map { "sends whatever it costs for \($0)" } ?? "minds what it costs")")
        device.conditions?.overriddenUntil = limit.map { executor.clock.now.elapsed + $0 }
    }

    /// Another process knows nothing of what the last one was told.
    func beginConditions(_ index: Int) {
        devices[index].conditions?.overriddenUntil = nil
        tellConditions(index)
    }

    /// The device is where it can send, and stays there.
    func freeConditions(_ index: Int) {
        guard devices[index].conditions != nil else { return }
        devices[index].conditions?.path = NetworkPath(isReachable: true, link: "wifi")
        devices[index].conditions?.isCharging = true
        tellConditions(index)
    }

    /// Nothing leaves over a link that the user does not want it to leave over.
    func checkConditions(from index: Int) {
        let device = devices[index]
        // Another process of the app has no conditions here.
        guard let conditions = device.conditions, device.second == nil, !device.network.isHealed,
            conditions.forbids(at: executor.clock.now.elapsed)
        else { return }
        record.violate("conditions", "device \(index) sends, connected: \(conditions.words)")
    }
}

extension DeviceConditions {
    fileprivate var words: String {
        let link = path.map {
            "\($0.isReachable ? $0.link : "not")\($0.isMetered ? ", metered" : "")\($0.isLowData ? ", low data" : "")"
        }
        return "\(link ?? "unknown")\(isCharging ? "" : ", not charging")"
    }
}
