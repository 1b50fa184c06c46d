public import SyncCore

/// What happened in the queue. Each that ends something has a durable row, too; the stream is for who looks on.
public enum UploadEvent: Sendable, Hashable {
    /// These leave now.
    case sent([String])
    /// Done as sent.
    case acknowledged(String, version: Int64?)
    /// Somebody else won at least in part; the record is the result.
    case merged(String, ServerRecord)
    /// It replaced values that it had not seen.
    case overwrote(String, [String: FieldValue])
    /// The server counted its stamp, too far ahead, as its own now.
    case clamped(String)
    /// The record had moved on; a successor goes in its place, unless nothing was left to say.
    case conflicted(String, hasSuccessor: Bool)
    /// It was decided before, and nobody knows how (long ago, or under the id that this device had before it was restored):
    /// the record comes with the next page.
    case expired(String)
    /// Nothing goes before this time (milliseconds since 1970).
    case retrying(atMilliseconds: Int64, cause: String)
    /// It goes no further; its reason and payload are kept.
    case setAside(String, SetAsideReason)
    /// It waits for another.
    case blocked(String, by: String)
    /// The most changes in one request from now on; `nil` is the configured size.
    case batchSize(Int?)
    /// The queue goes on, and why.
    case resumed(String)
    /// The server refused the credentials, and new ones were not to be had: nothing goes, nothing is dropped.
    case authenticationNeeded
    /// The oldest change has waited so long although the server is in reach.
    case stuck(ageMilliseconds: Int64, cause: String)
    /// An answer to a request that was given up came after all, and had no effect.
    case lateAnswer([String])
    /// A failed change goes again under this key.
    case retried(String, as: String)
    /// Given up by the app, with what needed it.
    case discarded([String])
    /// Taken back before it was sent, with what needed it.
    case cancelled([String])
    /// It may have had its effect: this inverse goes after it.
    case inverted(String, by: String)
    /// The local database did not do what it was asked; it is tried again.
    case storeFailed(StoreFailure)
}
