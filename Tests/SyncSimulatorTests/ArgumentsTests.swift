import Foundation
import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

@Suite struct ArgumentsTests {
    private func options(_ line: [String]) throws -> SimulationOptions {
        try Arguments(line).options(SimulationSchema.entities, LastWriterDeltas())
    }

    @Test("A line without arguments runs a hundred seeds from the first on")
    func empty() throws {
        let arguments = try Arguments([])
        #expect(arguments.seeds == 1..<101)
        #expect(!arguments.prints && !arguments.shrinks && !arguments.plants && !arguments.lists)
        let options = try options([])
        #expect(options.server == nil && options.bug == nil && options.readsByWriter)
        #expect(options.withoutSteps.isEmpty && options.withoutFaults.isEmpty)
    }

    @Test("Every option is heard, in whatever order")
    func all() throws {
        let line = [
            "--readers", "--from", "5", "--list", "--seeds", "7", "--jobs", "3", "--minutes", "4", "--least", "6",
            "--server", "model", "--bug", "newKeyOnRetry", "--folder", "/tmp", "--without-faults", "3,1",
            "--without-steps", "2", "--capture", "mixed",
        ]
        let arguments = try Arguments(line)
        #expect(arguments.seeds == 5..<12)
        #expect(arguments.lists && arguments.jobs == 3 && arguments.minutes == 4 && arguments.least == 6)
        let options = try options(line)
        #expect(options.server == .model && options.bug == .newKeyOnRetry && !options.readsByWriter)
        #expect(options.schema.entities.map(\.capture) == [.dirtyFlag, .triggers, .dirtyFlag, .triggers])
        #expect(options.withoutFaults == [1, 3] && options.withoutSteps == [2] && options.folder == "/tmp")
    }

    @Test("One seed is traced or made small; mistakes are planted, all of them or one")
    func ways() throws {
        let traced = try Arguments(["--trace", "42"])
        #expect(traced.prints && traced.seeds == 42..<43)
        let shrunk = try Arguments(["--shrink", "43"])
        #expect(shrunk.shrinks && shrunk.seeds == 43..<44)
        let planted = try Arguments(["--plant", "--seeds", "5"])
        #expect(planted.plants && planted.bugs == PlantedBug.allCases && planted.seeds == 1..<6)
        #expect(try Arguments(["--plant", "newKeyOnRetry"]).bugs == [.newKeyOnRetry])
    }

    @Test(
        "An option that lacks its word is told, and takes no other option for it",
        arguments: [
            ["--without-steps", "--without-faults", "1"], ["--without-steps", ""], ["--without-faults"],
            ["--without-steps", "1,x"], ["--without-steps", "1,,2"], ["--seeds"], ["--seeds", "many"],
            ["--from", "-1"],
            ["--server"], ["--server", "--readers"], ["--server", "mine"], ["--bug"], ["--bug", "--list"],
            ["--bug", "none"], ["--plant", "none"], ["--folder"], ["--folder", "--list"], ["--trace"],
            ["--shrink", "x"],
            ["--capture"], ["--capture", "none"], ["--bias"], ["--bias", "none"], ["--nothing"], ["5"],
        ])
    func mistakes(line: [String]) {
        #expect(throws: Arguments.Mistake.self) { try Arguments(line) }
    }
}
