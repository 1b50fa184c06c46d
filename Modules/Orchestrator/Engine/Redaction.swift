import SyncCore

/// What logs and durable records say of a failure: its class, its status and the contract's code.
///
/// Messages are for the app's own screen: an answer's words, or SQLite's, may hold anything.
extension ExchangeFailure {
    var redacted: String {
        [kind.rawValue, status.map { "status \($0)" }, redactedCode].compactMap { $0 }.joined(separator: " ")
    }

    /// The code, if it has the shape of one.
    var redactedCode: String? {
        guard let code, code.utf8.count <= 40,
            code.utf8.allSatisfy({ (65...90).contains($0) || (97...122).contains($0) })
        else { return nil }
        return code
    }
}

extension StoreFailure {
    var redacted: String { [kind.rawValue, code.map { "code \($0)" }].compactMap { $0 }.joined(separator: " ") }
}
