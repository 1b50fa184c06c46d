import ArgumentParser
import Ferry
import Foundation
import SyncCore

struct SyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync", abstract: "Bring this device's changes to the server, and everybody else's here.",
        discussion: """
            Your wish goes before our own back-off, never before a pause that the server asked for; it is tried again \
            until the time is over. Exit status: 0 when everything is in step, 3 when something is unsent, set aside or \
            held, or the pull could not finish.
            """)

    enum Mode: String, EnumerableFlag {
        case once, watch

        static func help(for value: Mode) -> ArgumentHelp? {
            switch value {
            case .once: "Until nothing is left to do; this is so without the flag, too."
            case .watch:
                "Go on: after each local change, on the server's hints, and every 30 s, until interrupted or the time is over."
            }
        }
    }

    @OptionGroup var global: GlobalOptions
    @Flag(exclusivity: .exclusive, help: .hidden)
    var mode: Mode = .once
    @Option(help: ArgumentHelp("How long to try, in seconds: 60 if not given, for ever with --watch.", valueName: "S"))
    var timeout: Double?
    @Flag(
        help: """
            Say yes to the removal that a sync before this one asked about: the server is asked once more, and what it \
            does not have then goes, if it is no more than that.
            """)
    var confirm = false
    @Flag(help: "One JSON value.")
    var json = false
    @Flag(help: "Tell on stderr what happens.")
    var verbose = false

    func validate() throws {
        guard let timeout else { return }
        guard timeout.isFinite, timeout > 0, timeout <= 1e9 else {
            throw ValidationError("--timeout needs a number of seconds above 0, such as 60 or 0.5.")
        }
    }

    func run() async throws {
        switch mode {
        case .once: try await sync(until: nil)
        // From here on, so that no wish to end it is missed, however early it comes.
        case .watch: try await Interruption.noting { try await sync(until: $0) }
        }
    }

    /// - Parameter interruption: ends a watch; `nil` for a sync that ends by itself.
    private func sync(until interruption: Interruption?) async throws {
        let server = try global.serverURL()
        let connection = try Connection(server: server, token: global.bearer(), isVerbose: verbose)
        let outcome: SyncOutcome
        do {
            let began = ContinuousClock.now
            let device = try await Device.open(global, patience: min(timeout ?? .infinity, Device.patience))
            // The wait for the database is part of the time.
            let spent = began.duration(to: .now)
            let journal = try await device.store.conflicts(limit: 1).first?.number ?? 0
            let engine = connection.engine(device.store)
            if confirm { try await engine.confirmRemoval() }
            if let interruption {
                outcome = try await watch(
                    device, engine, connection, until: timeout.map { began + .seconds($0) }, interruption, journal)
            } else {
                let summary = try await engine.sync(for: .seconds(timeout ?? 60) - spent)
                outcome = try await SyncOutcome(summary, lostByServer: device.store.lostByServer(after: journal))
                await close(device)
            }
        } catch {
            await connection.close()
            throw error
        }
        await connection.close()
        Console.print(json ? JSONText.text(outcome.json) : outcome.sentence)
        guard outcome.isInStep else { throw ExitCode(3) }
    }

    /// Watches until it is over; a database that was moved, replaced or found damaged meanwhile is opened anew, as the next command
    /// would open it.
    private func watch(
        _ first: Device, _ engine: SyncEngine, _ connection: Connection, until end: ContinuousClock.Instant?,
        _ interruption: Interruption, _ journal: Int64
    ) async throws -> SyncOutcome {
        var (device, engine, journal) = (first, engine, journal)
        var total = CycleReport()
        while true {
            let watcher = Watcher(engine: engine, store: device.store, isJSON: json)
            let left = end.map { max(ContinuousClock.now.duration(to: $0), .zero) }
            let watched = try await watcher.run(for: left, until: interruption)
            total.add(watched.report)
            guard watched.needsOpening else { break }
            if device.store.standing == .replaced, !FileManager.default.fileExists(atPath: global.folder) {
                throw Problem("The folder “\(global.folder)” is gone: it was moved or removed while it was watched.")
            }
            // What is damaged or gone need not close; the file is nobody's any more.
            await close(device)
            device = try await Device.open(global)
            journal = try await device.store.conflicts(limit: 1).first?.number ?? 0
            engine = connection.engine(device.store)
        }
        let (queue, held) = (try await device.store.summary(), try await device.store.position().held)
        let outcome = SyncOutcome(
            SyncSummary(report: total, queue: queue, held: held),
            lostByServer: try await device.store.lostByServer(after: journal))
        await close(device)
        return outcome
    }

    /// Brings the file's log in before the process ends, which an engine that is let go of does on a thread of its own. What was done
    /// is in the log already: where this fails, the next command does it.
    private func close(_ device: Device) async {
        do { try await device.store.close() } catch { Console.complain("\(error)") }
    }
}
