import Foundation
public import SyncCore

/// `simulate --seeds N [--from S]`: runs seeds, prints rate, violations and coverage, and how to replay.
///
/// A program of one line puts an app's own entities under it: `try SimulatorCommand.run(entities: [note])`.
public enum SimulatorCommand {
    /// Does what the command line asks for; ends the program with 1 where a seed failed or a planted bug was not found, and
    /// with 2 and a sentence on standard error where it does not understand the line, or cannot run the entities.
    /// - Parameters:
    ///   - entities: what is synced; what users do with it follows from the declared fields.
    ///   - deltas: how devices compose and replay deltas; an app's own merge rules go here.
    ///   - program: what starts this program on a command line, for the lines that say how to replay; `nil` for its path.
    ///   - line: the command line without the program's name.
    /// - Throws: where a seed's files cannot be made.
    public static func run(
        entities: [EntitySchema] = SimulationSchema.entities, deltas: any DeltaCalculation = LastWriterDeltas(),
        program: String? = nil, line: [String] = Array(CommandLine.arguments.dropFirst())
    ) throws {
        SQLiteMemory.set()
        let arguments: Arguments
        let options: SimulationOptions
        do {
            arguments = try Arguments(line)
            options = try arguments.options(entities, deltas)
        } catch {
            FileHandle.standardError.write(Data("\(error)\n".utf8))
            exit(2)
        }
        let replay = ReplayLine(program: program, folder: arguments.folder)
        if arguments.prints {
            try printTrace(arguments, options)
        } else if arguments.shrinks {
            try shrink(arguments, options, replay)
        } else if arguments.plants {
            try plant(arguments, options)
        } else {
            try campaign(arguments, options, replay)
        }
    }

    // MARK: Many seeds

    private static func campaign(
        _ arguments: Arguments, _ options: SimulationOptions, _ replay: ReplayLine
    ) throws {
        let began = Date()  // live: how long a campaign takes
        let end = arguments.minutes.map { began.addingTimeInterval($0 * 60) }
        let interrupt = Interrupt()
        let sources = interrupt.listen()
        let totals = Workers.run(
            seeds: arguments.seeds, jobs: arguments.jobs, until: end, least: arguments.least, interrupt: interrupt
        ) { seed, totals in
            let report = try Simulation.run(seed: seed, options)
            totals.add(report)
            if arguments.lists { say(report) }
            if seed % 10 == 0 {
                totals.add(first: report, second: try Simulation.run(seed: seed, options.secondTime))
            }
            if !report.violations.isEmpty { show(report, options, replay) }
        }
        let seconds = Date().timeIntervalSince(began)  // live
        sources.forEach { $0.cancel() }
        show(totals, options, replay, seconds: seconds)
        if interrupt.hasCome { exit(Interrupt.exitCode) }
        if !totals.failing.isEmpty || !totals.unequal.isEmpty { exit(1) }
        if totals.counted < arguments.least {
            say("TOO FEW: \(totals.counted) seeds count, and \(arguments.least) were asked for")
            exit(1)
        }
        // A few seeds cannot reach everything.
        if totals.seeds >= 1_000, !totals.missed(of: options.reachable).isEmpty { exit(1) }
    }

    private static func show(_ report: SeedReport, _ options: SimulationOptions, _ replay: ReplayLine) {
        say("seed \(report.seed):")
        for violation in report.violations.prefix(5) { say("  \(violation)") }
        say("  replay: \(replay.trace(report.seed, options))")
        say("  shrink: \(replay.shrink(report.seed, options))")
    }

    private static func show(
        _ totals: RunTotals, _ options: SimulationOptions, _ replay: ReplayLine, seconds: Double
    ) {
        let rate = Double(totals.seeds) / seconds
        say("seeds        \(totals.seeds) (\(totals.counted) count), \(format(rate)) a second")
        for word in totals.lacking.keys.sorted() { say("  do not count: \(totals.lacking[word] ?? 0), \(word)") }
        say("incomplete   \(totals.incomplete.count) \(totals.incomplete.sorted())")
        say("local writes \(totals.localWrites), requests \(totals.requests)")
        say(
            "run twice    \(totals.repeated), with another trace \(totals.unequal.count) \(totals.unequal)"
        )
        for seed in totals.unequal.sorted() {
            say("  compare: \(replay.trace(seed, options))")
            say("  with:    \(replay.trace(seed, options.secondTime))")
        }
        say("violations   \(totals.failing.count) seeds \(totals.failing.map(\.seed).sorted())")
        let kinds = Dictionary(grouping: totals.failing) { $0.violations.first?.invariant ?? "" }
        for kind in kinds.keys.sorted() { say("  \(kind): \(kinds[kind]?.count ?? 0) seeds") }
        say("faults that struck:")
        for name in totals.faults.keys.sorted() { say("  \(name): \(totals.faults[name] ?? 0)") }
        say("situations reached:")
        let reachable = options.reachable
        for situation in Situation.allCases {
            let none =
                reachable.contains(situation)
                ? "NEVER" : "cannot be reached with these entities, this server and these options"
            say("  \(situation.rawValue): \(totals.coverage[situation].map(String.init) ?? none)")
        }
        let missed = totals.missed(of: reachable)
        if !missed.isEmpty { say("MISSED: \(missed.map(\.rawValue).joined(separator: "; "))") }
    }

    private static func format(_ number: Double) -> String { String(format: "%.1f", number) }

    // MARK: One seed

    private static func printTrace(_ arguments: Arguments, _ options: SimulationOptions) throws {
        var live = options
        live.onLine = { say($0) }
        for seed in arguments.seeds {
            let report = try Simulation.run(seed: seed, live)
            say(
                "seed \(seed): \(report.localWrites) writes, \(report.faultCount) faults, trace \(report.traceHash)"
            )
            for violation in report.violations { say(violation) }
        }
    }

    private static func shrink(
        _ arguments: Arguments, _ options: SimulationOptions, _ replay: ReplayLine
    ) throws {
        for seed in arguments.seeds {
            let least = try Shrinker.shrink(seed: seed, options)
            say(replay.trace(seed, least))
            var traced = least
            traced.keepsTrace = true
            let report = try Simulation.run(seed: seed, traced)
            for line in report.trace { say(line) }
            for violation in report.violations { say(violation) }
            if report.violations.isEmpty { say("seed \(seed) violates nothing") }
        }
    }

    // MARK: Planted bugs

    /// Plants each bug in turn and runs seeds until one fails.
    private static func plant(_ arguments: Arguments, _ options: SimulationOptions) throws {
        let bugs = arguments.bugs
        // A thread takes every so manieth bug, as it takes every so manieth seed of a campaign.
        let totals = Workers.run(seeds: 0..<UInt64(bugs.count), jobs: arguments.jobs, until: nil) { number, totals in
            let bug = bugs[Int(number)]
            var (sound, planted) = (options, options)
            bug.prepare(&sound)
            planted.bug = bug
            var runs = 0
            for seed in arguments.seeds where bug.canShow(in: seed) {
                runs += 1
                let report = try Simulation.run(seed: seed, planted)
                // A seed that fails without the bug finds nothing.
                guard let first = report.violations.first, try Simulation.run(seed: seed, sound).violations.isEmpty
                else { continue }
                return say("\(bug.rawValue): \(runs) seeds, \(seed): \(first)")
            }
            say("\(bug.rawValue): NOT FOUND in \(runs) seeds")
            totals.notFound.append(bug)
        }
        if !totals.notFound.isEmpty { exit(1) }
    }
}

/// Writes a line at once: a run that is ended from outside has said what it found.
func say(_ line: Any) {
    FileHandle.standardOutput.write(Data("\(line)\n".utf8))
}
