import Ferry
import SyncCore

/// Before when nothing of the queue goes by itself, and why: from what the database holds.
struct QueueWait {
    /// Milliseconds since 1970; `nil` where it may go now.
    let nextAttempt: Int64?
    /// What happened last, in words.
    let cause: String?
    /// The server refused the credentials: the next `sync` tries those it is given.
    let needsCredentials: Bool

    init(_ summary: QueueSummary, now: Int64 = SystemWallClock().nowMilliseconds) {
        nextAttempt = summary.schedule.nextAttempt(afterMilliseconds: now)
        cause = summary.schedule.cause
        needsCredentials = summary.schedule.needsCredentials
    }

    /// The next attempt's time as `pending --json` and `status --json` tell it.
    var json: FieldValue { nextAttempt.map(ChangeReport.time) ?? .null }

    /// Without the cause itself, which may be in any words: `pending` has it.
    var shortSentence: String? {
        if needsCredentials { return PullStanding.refused }
        let time = nextAttempt.map { "Nothing goes by itself before \(Timestamp(milliseconds: $0))" }
        guard cause != nil else { return time.map { $0 + "." } }
        return (time ?? "The last try came to nothing") + "; `boards pending` says why."
    }

    /// A line for people; `nil` where there is nothing to say.
    var sentence: String? {
        // A cause may be a sentence of its own.
        let words = cause.map { $0.hasSuffix(".") ? String($0.dropLast()) : $0 }
        let why = words.map { " (\($0))" } ?? ""
        if needsCredentials {
            return "The server refused the credentials\(why); the next sync tries those it is given."
        }
        guard let nextAttempt else { return words.map { "The last try failed: \($0)." } }
        return "Nothing goes by itself before \(Timestamp(milliseconds: nextAttempt))\(why)."
    }
}
