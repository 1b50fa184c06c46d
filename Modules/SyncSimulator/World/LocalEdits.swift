import GRDB
import SyncCore
import SyncTesting

/// One write of the app's own tables, with plain SQL.
enum LocalEdit: Sendable, Hashable {
    case insert(RecordKey, [String: FieldValue])
    case update(RecordKey, [String: FieldValue])
    case delete(RecordKey)

    func perform(_ db: Database) throws {
        switch self {
        case .insert(let key, let fields):
            let names = fields.keys.sorted()
            let columns = (["id"] + names).map { "\"\($0)\"" }.joined(separator: ", ")
            let marks = repeatElement("?", count: names.count + 1).joined(separator: ", ")
            try db.cachedStatement(sql: "INSERT INTO \"\(key.entity)\" (\(columns)) VALUES (\(marks))").execute(
                arguments: StatementArguments([key.id.databaseValue] + names.map { Columns.value(fields[$0]) }))
        case .update(let key, let fields):
            let names = fields.keys.sorted()
            let parts = names.map { "\"\($0)\" = ?" }.joined(separator: ", ")
            try db.cachedStatement(sql: "UPDATE \"\(key.entity)\" SET \(parts) WHERE id = ?").execute(
                arguments: StatementArguments(names.map { Columns.value(fields[$0]) } + [key.id.databaseValue]))
        case .delete(let key):
            try db.cachedStatement(sql: "DELETE FROM \"\(key.entity)\" WHERE id = ?").execute(arguments: [key.id])
        }
    }
}

/// Column values and field values, as an app would turn one into the other.
enum Columns {
    static func value(_ value: FieldValue?) -> DatabaseValue {
        switch value ?? .null {
        case .null: .null
        case .bool(let flag): flag.databaseValue
        case .int(let number): number.databaseValue
        case .double(let number): number.databaseValue
        case .string(let text): text.databaseValue
        case .data, .array, .object: Self.json(value ?? .null).databaseValue
        }
    }

    static func field(_ column: DatabaseValue, kind: FieldKind) throws -> FieldValue {
        switch (column.storage, kind) {
        case (.null, _): .null
        case (.int64(let number), .boolean): .bool(number != 0)
        case (.int64(let number), .real): .double(Double(number))
        case (.int64(let number), _): .int(number)
        case (.double(let number), _): .double(number)
        case (.string(let text), .json): try FieldValue(json: text)
        case (.string(let text), _): .string(text)
        case (.blob(let bytes), _): .data([UInt8](bytes))
        }
    }

    /// Compact JSON; the simulator's arrays hold strings only.
    private static func json(_ value: FieldValue) -> String {
        switch value {
        case .array(let elements): "[" + elements.map(json).joined(separator: ",") + "]"
        case .string(let text): "\"\(text)\""
        case .int(let number): "\(number)"
        default: "null"
        }
    }
}

/// The records that a device's app shows, read with plain SQL.
struct Rows: Sendable {
    var rows: [RecordKey: [String: FieldValue]] = [:]

    init(_ db: Database, _ schema: Schema) throws {
        for entity in schema.entities {
            let cursor = try Row.fetchCursor(db.cachedStatement(sql: "SELECT * FROM \"\(entity.table)\""))
            while let row = try cursor.next() {
                var fields: [String: FieldValue] = [:]
                for field in entity.fields {
                    let value = try Columns.field(row[field.column], kind: field.kind)
                    if !value.isNull { fields[field.name] = value }
                }
                rows[RecordKey(entity.name, row["id"])] = fields
            }
        }
    }

    func keys(_ entity: String) -> [RecordKey] { rows.keys.filter { $0.entity == entity }.sorted() }
}

/// Turns a tape's action into edits of what the device has at that moment.
struct EditMaker {
    let rows: Rows
    let device: Int
    let ids: any IDSource

    func edits(for action: WorkloadTape.Action) -> [LocalEdit] {
        switch action {
        case .create(let entity, let parent, let fields): create(entity, parent: parent, fields: fields)
        case .update(let record, let fields): pick(record).map { update($0, fields) } ?? []
        case .transaction(let records, let fields, _): transaction(records, fields)
        case .move(let record, let target): move(record, to: target)
        case .delete(let record): pickForDeletion(record).map { [.delete($0)] } ?? []
        case .rewrite(let record):
            pick(record).flatMap { key in rows.rows[key].map { [.update(key, $0)] } } ?? []
        case .syncNow, .cancel, .retry, .discard: []
        }
    }

    private func pick(_ number: UInt64, _ entity: String? = nil) -> RecordKey? {
        let all = entity.map { rows.keys($0) } ?? rows.rows.keys.sorted()
        return all.isEmpty ? nil : all[Int(number % UInt64(all.count))]
    }

    /// Boards are seldom deleted: they take everything with them.
    private func pickForDeletion(_ number: UInt64) -> RecordKey? {
        guard let key = pick(number) else { return nil }
        return key.entity == "board" && number % 4 != 0 ? pick(number, "comment") : key
    }

    private func create(_ entity: String, parent: UInt64, fields seed: UInt64) -> [LocalEdit] {
        var fields = values(entity, SeededGenerator(seed: seed), all: true, of: nil)
        if let (field, target) = SimulationSchema.parents[entity] {
            guard let parent = pick(parent, target) else { return create(target, parent: parent, fields: seed) }
            fields[field] = .string(parent.id)
        }
        return [.insert(RecordKey(entity, ids.makeID()), fields)]
    }

    private func update(_ key: RecordKey, _ seed: UInt64) -> [LocalEdit] {
        let fields = values(key.entity, SeededGenerator(seed: seed), all: false, of: rows.rows[key])
        return fields.isEmpty ? [] : [.update(key, fields)]
    }

    private func transaction(_ records: [UInt64], _ seed: UInt64) -> [LocalEdit] {
        var edits = create("card", parent: seed, fields: seed)
        var seen: Set<RecordKey> = []
        for (place, number) in records.enumerated() {
            guard let key = pick(number), seen.insert(key).inserted else { continue }
            edits += update(key, seed &+ UInt64(place))
        }
        return edits
    }

    private func move(_ record: UInt64, to target: UInt64) -> [LocalEdit] {
        guard let card = pick(record, "card"), let list = pick(target, "list") else { return [] }
        return [.update(card, ["idList": .string(list.id)])]
    }

    /// New values; texts name their writer, so that each value can be told from every other.
    private func values(
        _ entity: String, _ generator: SeededGenerator, all: Bool, of row: [String: FieldValue]?
    ) -> [String: FieldValue] {
        var generator = generator
        var fields: [String: FieldValue] = [:]
        let text = FieldValue.string("\(device).\(generator.next() % 1_000_000)")
        func wants(_ generator: inout SeededGenerator) -> Bool { generator.chance(all ? 0.8 : 0.35) }
        switch entity {
        case "board":
            if all || wants(&generator) { fields["name"] = text }
            if wants(&generator) { fields["tags"] = changed(row?["tags"], &generator) }
            if wants(&generator) { fields["closed"] = .bool(generator.chance(0.5)) }
        case "list":
            if all || wants(&generator) { fields["name"] = text }
            if wants(&generator) { fields["pos"] = .double(Double(generator.below(1 << 20)) / 64 + 0.25) }
        case "card":
            if all || wants(&generator) { fields["name"] = text }
            if wants(&generator) { fields["desc"] = .string("desc \(device).\(generator.next() % 1_000_000)") }
            if wants(&generator) {
                let present: Int64 = if case .int(let number)? = row?["votes"] { number } else { 0 }
                fields["votes"] = .int(present + Int64(1 + generator.below(5)))
            }
            if wants(&generator) { fields["labels"] = changed(row?["labels"], &generator) }
            if wants(&generator) {
                fields["due"] =
                    generator.chance(0.2) ? .null : .string("2027-0\(1 + generator.below(9))-11T08:00:00.123Z")
            }
            if wants(&generator) { fields["closed"] = .bool(generator.chance(0.5)) }
        default:
            fields["text"] = text
        }
        return fields
    }

    /// A set with one element put in or taken out.
    private func changed(_ value: FieldValue?, _ generator: inout SeededGenerator) -> FieldValue {
        var elements: [FieldValue] = if case .array(let present)? = value { present } else { [] }
        let element = FieldValue.string("t\(generator.below(6))")
        if let place = elements.firstIndex(of: element) { elements.remove(at: place) } else { elements.append(element) }
        return .array(elements)
    }
}
