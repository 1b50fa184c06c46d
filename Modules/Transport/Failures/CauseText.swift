import SyncCore

/// What happened and what will happen next, in a sentence for people; what was expected and what came stands behind it
/// in parentheses, for whoever looks for the fault.
enum CauseText {
    static func of(_ failure: HTTPFailure) -> String {
        let sentence =
            switch failure.kind {
            case .noConnection: "The server could not be reached; it is tried again."
            case .timedOut: "The server took too long to answer; it is asked again."
            case .secureConnection:
                "The server could not prove who it is, so nothing was sent; it is tried again."
            case .interrupted:
                "The connection broke before the whole answer was here; the same is sent again, and counts once."
            case .unusable: "What answered cannot be used, so nothing of it was taken; it is tried again."
            case .authentication: "Nothing can be sent before you sign in; what is not sent yet stays here."
            case .local: "This device could not go on; it is tried again."
            case .cancelled: "It was stopped here; what is not sent yet stays here."
            case .closed: "The connection to the server was closed here."
            }
        return with(detail: failure.message, sentence)
    }

    /// - Parameter came: what answered, in a few words.
    static func of(_ kind: FailureClass, status: Int, came: String) -> String {
        let sentence =
            switch kind {
            case .network: "Something on the way answered in place of the server; it is tried again."
            case .temporary: "The server cannot do it now; it is tried again."
            case .temporaryLonger: "The server failed inside; it is tried again after a while."
            case .authentication: "The server wants you to sign in again; what is not sent yet stays here."
            case .conflict: "The record was changed on the server meanwhile; both changes are brought together."
            case .tooLarge: "The server takes less at once; it is sent in smaller parts."
            case .permanent: "The server refused the change; it is set aside."
            case .history:
                "The server's history is not the one that this device knows; nothing of the answer was taken."
            case .unknown: "The server refused the request; its changes are tried in smaller parts."
            }
        return with(detail: "expected a success; \(status) came: \(came)", sentence)
    }

    /// For an answer that came with a status of success.
    static func ofNoAnswer(expected: String, came: String) -> String {
        with(
            detail: "expected \(expected); came: \(came)",
            "What came is no answer of the server, so nothing of it was taken; it is tried again.")
    }

    static func ofOtherDataset(came: String) -> String {
        with(
            detail: "expected the known data set; another came in \(came)",
            "Another server answered, or one with other data; nothing was taken, and it waits for your word.")
    }

    private static func with(detail: String, _ sentence: String) -> String {
        detail.isEmpty ? sentence : "\(sentence.dropLast()) (\(detail))."
    }
}
