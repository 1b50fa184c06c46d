import ArgumentParser
import Foundation
import GRDB
import SyncCore

/// Runs a command line to its end: output, one clear sentence for a failure, and the exit status of the contract.
enum Program {
    /// Parses and runs; never throws.
    /// - Returns: 0 done, 1 failed or bad input, 2 wrong arguments, 3 from `sync` alone.
    static func run(_ root: any AsyncParsableCommand.Type, _ arguments: [String]) async -> Int32 {
        do {
            try checkHelp(root, arguments)
            var command = try await root.asyncParseAsRoot(arguments)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
            return 0
        } catch {
            return report(error, root)
        }
    }

    /// The parser's own `help` shows the program's help for a command that is none.
    private static func checkHelp(_ root: any AsyncParsableCommand.Type, _ arguments: [String]) throws(Problem) {
        guard arguments.first == "help", let name = arguments.dropFirst().first, !name.hasPrefix("-") else { return }
        let names = root.configuration.subcommands.map { $0._commandName }
        guard !names.contains(name), name != "help" else { return }
        throw .usage("There is no command “\(name)”; `\(root._commandName) --help` lists them.")
    }

    /// The arguments of this process.
    /// - Returns: `nil` where one is not UTF-8: Swift would repair it, and another text would be written, or another folder made.
    static func arguments() -> [String]? {
        var found: [String] = []
        for index in 1..<max(Int(CommandLine.argc), 1) {
            guard let bytes = CommandLine.unsafeArgv[index], let text = String(validatingCString: bytes) else {
                return nil
            }
            found.append(text)
        }
        return found
    }

    /// Leaves the process at once with this status.
    static func exit(_ status: Int32) -> Never { Foundation.exit(status) }

    private static func report(_ error: any Error, _ root: any AsyncParsableCommand.Type) -> Int32 {
        switch error {
        case let problem as Problem:
            Console.complain(problem.sentence)
            return problem.exitCode
        case let code as ExitCode:
            return code.rawValue
        case let failure as StoreFailure:
            Console.complain(failure.message)
            return 1
        case let failure as DatabaseError:
            Console.complain("The database refused: \(failure.message ?? failure.description).")
            return 1
        case is CancellationError:
            Console.complain("Interrupted.")
            return 1
        default:
            return reportParsing(error, root)
        }
    }

    /// What the argument parser throws: help that was asked for, or arguments that make no sense. Everything else that
    /// comes here is a failure of the command itself.
    private static func reportParsing(_ error: any Error, _ root: any AsyncParsableCommand.Type) -> Int32 {
        let code = root.exitCode(for: error)
        if code == .success {
            Console.print(root.fullMessage(for: error))
            return 0
        }
        guard code == .validationFailure else {
            Console.complain(String(describing: error))
            return 1
        }
        Console.complain(root.fullMessage(for: error))
        return 2
    }
}
