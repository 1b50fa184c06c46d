import ArgumentParser
import BoardsModel
import Ferry
import SyncCore

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Say how far a record and everything under it is: queued, syncing, synced or failed.",
        discussion: """
            Without ENTITY and ID, of this device's whole database. Failed comes before syncing before queued. Where \
            nothing waits to be sent, but the last pull brought not everything of the server, the whole database is \
            `behind`, with a sentence that says why.
            """
    )

    @OptionGroup var global: GlobalOptions
    @Flag(help: "One JSON value.")
    var json = false
    @Argument(help: ArgumentHelp("The record's entity.", valueName: "ENTITY"))
    var entity: String?
    @Argument(help: ArgumentHelp("The record's id.", valueName: "ID"))
    var id: String?

    func validate() throws {
        if entity != nil, id == nil { throw ValidationError("Say the record's id behind its entity.") }
    }

    func run() async throws {
        let schema = try BoardEntities.schema()
        var key: RecordKey?
        if let entity, let id { key = try Target.key(entity, id, schema) }
        let device = try await Device.open(global, for: .looking)
        let counts = try await device.counts(for: key)
        if let key, counts == StateCounts() {
            let records = device.records
            guard try await device.read({ try records.fetch($0, key) }) != nil else { throw Edits.missing(key) }
        }
        let wait = key == nil ? QueueWait(try await device.store.summary()) : nil
        let pull = key == nil ? try await PullStanding(device.store) : nil
        let status = StatusReport(record: key, counts: counts, wait: wait, pull: pull)
        Console.print(json ? JSONText.text(status.json) : status.sentence)
    }
}

/// How far a record and everything under it is.
struct StatusReport {
    let record: RecordKey?
    let counts: StateCounts
    /// When and why the queue waits; of the whole database only.
    var wait: QueueWait?
    /// Whether what others wrote is here; of the whole database only.
    var pull: PullStanding?

    /// Failed before syncing before queued before behind before synced.
    var state: String {
        if counts.failed > 0 { return "failed" }
        if counts.uploading > 0 { return "syncing" }
        if counts.waiting > 0 { return "queued" }
        return pull?.gap == nil ? "synced" : "behind"
    }

    /// The word first, and no other of the words behind it.
    var sentence: String {
        var parts: [String] = []
        if counts.failed > 0 { parts.append("\(counts.failed) set aside") }
        if counts.uploading > 0 { parts.append("\(counts.uploading) on the way") }
        if counts.waiting > 0 { parts.append("\(counts.waiting) waiting") }
        let first = parts.isEmpty ? state : "\(state) (\(parts.joined(separator: ", ")))"
        let waits = counts.waiting + counts.uploading > 0 ? wait?.shortSentence : nil
        return [first, waits, pull?.gap == waits ? nil : pull?.gap].compactMap { $0 }.joined(separator: "\n")
    }

    var json: FieldValue {
        var members: [String: FieldValue] = [
            "state": .string(state), "failed": .int(Int64(counts.failed)), "syncing": .int(Int64(counts.uploading)),
            "queued": .int(Int64(counts.waiting)),
        ]
        if let wait {
            members["nextAttempt"] = wait.json
            members["cause"] = (wait.cause ?? pull?.cause).map(FieldValue.string) ?? .null
            members["needsCredentials"] = .bool(wait.needsCredentials || pull?.needsCredentials == true)
        }
        if let pull {
            members["held"] = .int(Int64(pull.held))
            members["gap"] = pull.gap.map(FieldValue.string) ?? .null
        }
        if let record {
            members["entity"] = .string(record.entity)
            members["id"] = .string(record.id)
        }
        return .object(members)
    }
}
