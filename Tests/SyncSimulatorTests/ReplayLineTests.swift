import Foundation
import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

@Suite struct ReplayLineTests {
    private let replay = ReplayLine(program: "Examples/run simulate")

    private func options() throws -> SimulationOptions { try SimulationOptions(folder: NSTemporaryDirectory()) }

    @Test("Lists that are empty are left out")
    func plain() throws {
        #expect(replay.trace(42, try options()) == "Examples/run simulate --trace 42")
        #expect(replay.shrink(42, try options()) == "Examples/run simulate --shrink 42")
    }

    @Test("What the seed's course hangs on is in the line, and the line says the same again")
    func whole() throws {
        var all = try options()
        all.withoutSteps = [9, 2]
        all.withoutFaults = [4]
        all.bug = .newKeyOnRetry
        all.server = .reference
        all.capture = .mixed
        all.makesIDs = true
        all.sendsSingly = true
        all.movesMuch = true
        all.damagesFiles = true
        all.hasDrafts = true
        all.hasConditions = true
        all.waitsForSettled = true
        all.bias = .churn
        all.readsByWriter = false
        let replay = ReplayLine(program: "simulate", folder: "/tmp/a folder")
        let line = replay.trace(7, all)
        #expect(
            line == "simulate --trace 7 --without-steps 2,9 --without-faults 4 --bug newKeyOnRetry --server reference"
                + " --capture mixed --server-ids --single --roots --damage --drafts --conditions --settled --bias churn --readers"
                + " --folder '/tmp/a folder'")
        let words = line.replacingOccurrences(of: "'/tmp/a folder'", with: "/tmp/a\u{0}folder").split(separator: " ")
        let heard = try Arguments(words.dropFirst().map { $0.replacingOccurrences(of: "\u{0}", with: " ") })
        let again = try heard.options(SimulationSchema.entities, LastWriterDeltas())
        #expect(heard.prints && heard.seeds == 7..<8)
        #expect(replay.trace(7, again) == line)
        #expect(again.folder == "/tmp/a folder")
        all.sendsByREST = true
        #expect(replay.trace(7, all) == line.replacingOccurrences(of: "--single", with: "--rest"))
        let rest = try Arguments(["--trace", "7", "--rest"]).options(SimulationSchema.entities, LastWriterDeltas())
        #expect(rest.sendsSingly && rest.sendsByREST && rest.usesReferenceServer(7))
        for other in [["--server-ids"], ["--server", "model"]] {
            let both = try Arguments(["--trace", "7", "--rest"] + other)
            #expect(throws: Arguments.Mistake.self) { try both.options(SimulationSchema.entities, LastWriterDeltas()) }
        }
    }

    @Test("A program that does not say what starts it is called by its path")
    func path() throws {
        let line = ReplayLine(program: nil).trace(1, try options())
        #expect(line.contains(CommandLine.arguments[0]))
        #expect(line.hasSuffix(" --trace 1"))
    }
}
