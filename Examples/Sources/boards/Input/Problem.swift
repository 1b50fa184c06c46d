/// What the program cannot do, in one sentence for the person at the keyboard; nothing was changed.
struct Problem: Error, Sendable, Hashable {
    /// One sentence, said on stderr.
    let sentence: String
    /// 1 for a failure or bad input; 2 for wrong arguments.
    let exitCode: Int32

    init(_ sentence: String, exitCode: Int32 = 1) {
        self.sentence = sentence
        self.exitCode = exitCode
    }

    /// Arguments that no data could make right.
    static func usage(_ sentence: String) -> Problem { Problem(sentence, exitCode: 2) }
}
