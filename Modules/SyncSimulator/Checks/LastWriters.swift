import SyncCore
import SyncTesting

/// What plain fields must hold after everything that a server accepted: the greatest of all writes, one by one
/// (PROTOCOL.md, *Last writer wins*), in twenty lines that share nothing with the server.
struct LastWriters {
    private struct Write {
        var stamp: Stamp
        var device: String
        var sequence: Int64
        var value: FieldValue

        func isAbove(_ other: Write) -> Bool {
            if stamp != other.stamp { return stamp > other.stamp }
            if device != other.device { return other.device.utf8.lexicographicallyPrecedes(device.utf8) }
            return sequence > other.sequence
        }
    }

    private var greatest: [RecordKey: [String: Write]] = [:]
    /// The create, which is a write of null to each field that it does not name where a delete is older, whenever that came (seed
    /// 88928).
    private var makings: [RecordKey: Write] = [:]
    private var deletes: [RecordKey: [Write]] = [:]
    /// Records about whose fields more than the writes themselves decides: a create of the dead clears fields, and a
    /// clamped stamp is the server's.
    private var unclear: Set<RecordKey> = []
    /// Fields that sums or elements were added to, or that were written under check: a plain write of those, as a revived create's,
    /// is not the last word (seeds 25492 and 80687).
    private var ruled: [RecordKey: Set<String>] = [:]

    init(_ effects: [ModelServer.Effect]) {
        var deleted: Set<RecordKey> = []
        for effect in effects {
            let change = effect.change
            switch effect.verdict {
            case .applied, .merged: break
            case .conflict, .rejected, .blocked, .retry: continue
            }
            let wasKnown = greatest[change.record] != nil || deleted.contains(change.record)
            if effect.isClamped || change.operation == .create && wasKnown { unclear.insert(change.record) }
            if change.operation == .delete { deleted.insert(change.record) }
            let whole = Write(stamp: change.stamp, device: effect.device, sequence: change.sequence, value: .null)
            switch change.operation {
            case .create: makings[change.record] = whole
            case .delete: deletes[change.record, default: []].append(whole)
            case .update: break
            }
            for (name, delta) in change.fields where change.operation == .update {  // any order
                if delta.rule != .lastWriter { ruled[change.record, default: []].insert(name) }
            }
            for (name, delta) in change.fields  // any order
            where change.operation != .delete && delta.rule == .lastWriter {
                let write = Write(
                    stamp: delta.stamp ?? change.stamp, device: effect.device, sequence: change.sequence,
                    value: delta.new)
                if let present = greatest[change.record]?[name], !write.isAbove(present) { continue }
                greatest[change.record, default: [:]][name] = write
            }
        }
    }

    /// Where the records say something else, in words.
    func differences(_ records: [ServerRecord]) -> [String] {
        records.filter { $0.presence == .live && !unclear.contains($0.key) }.flatMap { record in
            (greatest[record.key] ?? [:]).sorted { $0.key < $1.key }.compactMap { name, write in
                let shown = record.fields[name] ?? .null
                guard ruled[record.key]?.contains(name) != true else { return nil }
                let making = makings[record.key].flatMap { making in
                    deletes[record.key]?.contains(where: making.isAbove) == true && making.isAbove(write) ? making : nil
                }
                let last = (making ?? write).value
                return shown.isSame(as: last)
                    ? nil : "\(record.key).\(name) is \(shown), and \(last) was written last"
            }
        }
    }
}
