import SyncCore

/// Why a body is no answer to the request: what was expected, and what came.
struct AnswerFault: Error, Sendable, Hashable {
    var expected: String
    var came: String
    /// Another data set answered: the engine stops and asks.
    var isOtherDataset = false

    init(_ expected: String, _ came: String) {
        self.expected = expected
        self.came = came
    }

    init(_ failure: JSONFailure) {
        expected = failure.expected
        came = "\(failure.kind) at byte \(failure.offset)"
    }
}

/// Runs a step that reads JSON; what is wrong there makes the body no answer.
func reading<T>(_ body: () throws(JSONFailure) -> T) throws(AnswerFault) -> T {
    do { return try body() } catch { throw AnswerFault(error) }
}
