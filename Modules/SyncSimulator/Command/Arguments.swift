import Foundation
import SyncCore

/// What the command line asks for.
struct Arguments {
    private(set) var seeds: Range<UInt64> = 1..<101
    /// No further seed is begun after so many minutes, once `least` of them count.
    private(set) var minutes: Double?
    /// So many seeds must count: as long as fewer do, further ones are run however late it is, and a run of fewer
    /// fails.
    private(set) var least: UInt64 = 0
    private(set) var jobs = 2
    private(set) var prints = false
    private(set) var shrinks = false
    private(set) var plants = false
    /// A line for each seed.
    private(set) var lists = false
    private(set) var bugs = PlantedBug.allCases
    private var withoutSteps: Set<Int> = []
    private var withoutFaults: Set<Int> = []
    private var bug: PlantedBug?
    private(set) var folder: String?
    private var server: SimulationOptions.Server?
    private var capture: SimulatedCapture?
    private var derives = false
    private var sendsSingly = false
    private var sendsByREST = false
    private var movesMuch = false
    private var damagesFiles = false
    private var hasDrafts = false
    private var hasConditions = false
    private var waitsForSettled = false
    private var hasHandlers = false
    private var makesIDs = false
    private var bias: TapeBias?
    private var readsByWriter = true

    struct Mistake: Error, CustomStringConvertible {
        let description: String
    }

    static let usage = """
        simulate [--seeds N] [--from S] [--jobs J] [--minutes M [--least L]]
                                                         runs N seeds from S on, as many as fit M minutes; fails where
                                                         fewer than L of them count
                 [--list]                                with a line for each: its size, and whether it counts
        simulate --trace SEED [--without-steps LIST] [--without-faults LIST] [--bug NAME]
        simulate --shrink SEED [--bug NAME]              leaves out what the failure does not need
        any of them with [--server model|reference] [--folder PATH] [--readers] [--capture triggers|dirtyFlag|mixed|explicit|inTurn]
                         [--derived]                     the app has derived data, and listens to what changes
                         [--handlers]                    the app has handlers of its own, which are told of each record
                         [--server-ids]                  the reference server makes its own ids
                         [--single]                      each change goes in a request of its own
                         [--rest]                        the same, in the REST dialect; with the reference server, and the devices' ids
                         [--roots]                       devices hold parts of the account, and much moves between them
                         [--damage]                      devices' files are damaged while nobody has them open
                         [--drafts]                      users hold records back for a while
                         [--conditions]                  users want a network that costs nothing, or power
                         [--settled]                     apps wait for what they wrote to be settled
                         [--bias NAME]                   more of what is rare: asides, churn, histories, accounts or processes
        simulate --plant [NAME] [--seeds N] [--from S]   plants bugs and looks whether they are found
        """

    init(_ arguments: [String]) throws {
        var (count, first) = (UInt64(100), UInt64(1))
        var place = 0
        func number(_ name: String) throws -> UInt64 {
            place += 1
            guard place < arguments.count, let number = UInt64(arguments[place]) else {
                throw Mistake(description: "\(name) wants a number\n\(Self.usage)")
            }
            return number
        }
        /// The next word, which is no option: one that was forgotten must not take the option behind it.
        func word(_ name: String, _ what: String) throws -> String {
            place += 1
            guard place < arguments.count, !arguments[place].isEmpty, !arguments[place].hasPrefix("--") else {
                throw Mistake(description: "\(name) wants \(what)\n\(Self.usage)")
            }
            return arguments[place]
        }
        func list(_ name: String) throws -> Set<Int> {
            let what = "numbers with commas between them"
            let parts = try word(name, what).split(separator: ",", omittingEmptySubsequences: false)
            return Set(
                try parts.map { part in
                    guard let number = Int(part) else {
                        throw Mistake(description: "\(name) wants \(what), not “\(part)”\n\(Self.usage)")
                    }
                    return number
                })
        }
        func planted(_ name: String) throws -> PlantedBug {
            guard let bug = PlantedBug(rawValue: name) else {
                throw Mistake(
                    description: "no bug “\(name)”; there are \(PlantedBug.allCases.map(\.rawValue))")
            }
            return bug
        }
        while place < arguments.count {
            switch arguments[place] {
            case "--seeds": count = try number("--seeds")
            case "--from": first = try number("--from")
            case "--minutes": minutes = Double(try number("--minutes"))
            case "--least": least = try number("--least")
            case "--jobs": jobs = Int(min(try number("--jobs"), 1_000))
            case "--trace":
                prints = true
                (first, count) = (try number("--trace"), 1)
            case "--shrink":
                shrinks = true
                (first, count) = (try number("--shrink"), 1)
            case "--without-steps": withoutSteps = try list("--without-steps")
            case "--without-faults": withoutFaults = try list("--without-faults")
            case "--list": lists = true
            case "--readers": readsByWriter = false
            case "--derived": derives = true
            case "--handlers": hasHandlers = true
            case "--server-ids": makesIDs = true
            case "--single": sendsSingly = true
            case "--rest": sendsByREST = true
            case "--roots": movesMuch = true
            case "--damage": damagesFiles = true
            case "--drafts": hasDrafts = true
            case "--conditions": hasConditions = true
            case "--settled": waitsForSettled = true
            case "--folder": folder = try word("--folder", "a path")
            case "--server":
                let what = "model or reference"
                guard let known = SimulationOptions.Server(rawValue: try word("--server", what)) else {
                    throw Mistake(description: "--server wants \(what)\n\(Self.usage)")
                }
                server = known
            case "--capture":
                let what = "triggers, dirtyFlag, mixed, explicit or inTurn"
                guard let known = SimulatedCapture(rawValue: try word("--capture", what)) else {
                    throw Mistake(description: "--capture wants \(what)\n\(Self.usage)")
                }
                capture = known
            case "--bias":
                let what = "asides, churn, histories, accounts or processes"
                guard let known = TapeBias(rawValue: try word("--bias", what)) else {
                    throw Mistake(description: "--bias wants \(what)\n\(Self.usage)")
                }
                bias = known
            case "--bug": bug = try planted(try word("--bug", "the name of one"))
            case "--plant":
                plants = true
                if place + 1 < arguments.count, !arguments[place + 1].hasPrefix("--") {
                    place += 1
                    bugs = [try planted(arguments[place])]
                }
            default: throw Mistake(description: "unknown argument \(arguments[place])\n\(Self.usage)")
            }
            place += 1
        }
        let (end, isTooFar) = first.addingReportingOverflow(count)
        seeds = first..<(isTooFar ? .max : end)
    }

    func options(_ entities: [EntitySchema], _ deltas: any DeltaCalculation) throws -> SimulationOptions {
        if sendsByREST, makesIDs || server == .model {
            throw Mistake(description: "--rest goes with the reference server, which takes the devices' ids then")
        }
        if hasDrafts, derives {
            throw Mistake(description: "--drafts goes without --derived: nobody is told of a row that stays")
        }
        // Files in memory, where the system has such a place: thousands of databases are made and thrown away.
        let memory = "/dev/shm"
        let usual = FileManager.default.isWritableFile(atPath: memory) ? memory : NSTemporaryDirectory()
        let captured = capture?.applied(to: entities) ?? entities
        var options = try SimulationOptions(
            folder: folder ?? usual, entities: captured, withoutSteps: withoutSteps,
            withoutFaults: withoutFaults, deltas: deltas, bug: bug)
        options.server = server
        options.readsByWriter = readsByWriter
        options.capture = capture
        options.derives = derives
        options.hasHandlers = hasHandlers
        options.makesIDs = makesIDs
        options.sendsSingly = sendsSingly || sendsByREST
        options.sendsByREST = sendsByREST
        options.movesMuch = movesMuch
        options.damagesFiles = damagesFiles
        options.hasDrafts = hasDrafts
        options.hasConditions = hasConditions
        options.waitsForSettled = waitsForSettled
        options.bias = bias
        return options
    }
}
