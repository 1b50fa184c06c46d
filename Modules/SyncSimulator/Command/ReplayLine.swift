import Foundation
/// The command that does a seed again as it was done: one line for a shell, with every option that the seed's course hangs on.
struct ReplayLine {
    /// What starts the program that ran: another one has other entities, and so other seeds.
    let program: String
    /// The folder that was asked for.
    var folder: String?

    /// - Parameter given: what the program says of itself; `nil` for the path that it was started by.
    init(program given: String?, folder: String? = nil) {
        program = given ?? Self.quoted(CommandLine.arguments.first ?? "simulate")
        self.folder = folder
    }

    func trace(_ seed: UInt64, _ options: SimulationOptions) -> String { line("--trace", seed, options) }

    func shrink(_ seed: UInt64, _ options: SimulationOptions) -> String { line("--shrink", seed, options) }

    private func line(_ what: String, _ seed: UInt64, _ options: SimulationOptions) -> String {
        var words = [program, what, "\(seed)"]
        func add(_ name: String, _ numbers: Set<Int>) {
            guard !numbers.isEmpty else { return }
            words += [name, numbers.sorted().map(String.init).joined(separator: ",")]
        }
        add("--without-steps", options.withoutSteps)
        add("--without-faults", options.withoutFaults)
        if let bug = options.bug { words += ["--bug", bug.rawValue] }
        if let server = options.server { words += ["--server", server.rawValue] }
        if let capture = options.capture { words += ["--capture", capture.rawValue] }
        if options.derives { words.append("--derived") }
        if options.hasHandlers { words.append("--handlers") }
        if options.makesIDs { words.append("--server-ids") }
        if options.sendsSingly { words.append(options.sendsByREST ? "--rest" : "--single") }
        if options.movesMuch { words.append("--roots") }
        if options.damagesFiles { words.append("--damage") }
        if options.hasDrafts { words.append("--drafts") }
        if options.hasConditions { words.append("--conditions") }
        if options.waitsForSettled { words.append("--settled") }
        if let bias = options.bias { words += ["--bias", bias.rawValue] }
        if !options.readsByWriter { words.append("--readers") }
        if let folder { words += ["--folder", Self.quoted(folder)] }
        return words.joined(separator: " ")
    }

    /// A word that a shell takes as it is.
    private static func quoted(_ word: String) -> String {
        let isPlain =
            !word.isEmpty && word.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "/._-+:@".contains($0)) }
        return isPlain ? word : "'" + word.replacingOccurrences(of: "'", with: #"'\''"#) + "'"
    }
}
