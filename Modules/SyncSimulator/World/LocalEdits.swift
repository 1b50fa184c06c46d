import Foundation
import GRDB
import SyncCore
import SyncTesting

/// One write of the app's own tables, with plain SQL.
enum LocalEdit: Sendable, Hashable {
    case insert(RecordKey, [String: FieldValue])
    case update(RecordKey, [String: FieldValue])
    case delete(RecordKey)

    var record: RecordKey {
        switch self {
        case .insert(let record, _), .update(let record, _), .delete(let record): record
        }
    }

    /// Writes what the edit names into the tables and columns that the app declared for it.
    /// - Parameter names: what the device calls the records.
    func perform(_ db: Database, _ schema: Schema, _ names: LocalIDs = LocalIDs()) throws {
        switch names.edit(self, schema) {
        case .insert(let key, let fields):
            guard let entity = schema[key.entity] else { return }
            let names = fields.keys.sorted()
            let columns = ([entity.keyColumn] + names.map { entity.column($0) }).map(Self.quoted)
            let marks = repeatElement("?", count: names.count + 1).joined(separator: ", ")
            let sql =
                "INSERT INTO \(Self.quoted(entity.table)) (\(columns.joined(separator: ", "))) VALUES (\(marks))"
            try db.cachedStatement(sql: sql).execute(
                arguments: StatementArguments(
                    [key.id.databaseValue] + names.map { Columns.value(fields[$0]) }))
        case .update(let key, let fields):
            guard let entity = schema[key.entity] else { return }
            let names = fields.keys.sorted()
            let parts = names.map { "\(Self.quoted(entity.column($0))) = ?" }.joined(separator: ", ")
            let place = Self.quoted(entity.keyColumn)
            try db.cachedStatement(sql: "UPDATE \(Self.quoted(entity.table)) SET \(parts) WHERE \(place) = ?").execute(
                arguments: StatementArguments(
                    names.map { Columns.value(fields[$0]) } + [key.id.databaseValue]))
        case .delete(let key):
            guard let entity = schema[key.entity] else { return }
            let place = Self.quoted(entity.keyColumn)
            try db.cachedStatement(sql: "DELETE FROM \(Self.quoted(entity.table)) WHERE \(place) = ?")
                .execute(arguments: [key.id])
        }
    }

    private static func quoted(_ name: String) -> String { "\"\(name)\"" }
}

extension EntitySchema {
    /// The column of a declared field.
    fileprivate func column(_ name: String) -> String { field(name)?.column ?? name }
}

/// Field values as columns, as an app would write them; read they are by ``PlainRows``.
enum Columns {
    static func value(_ value: FieldValue?) -> DatabaseValue {
        switch value ?? .null {
        case .null: .null
        case .bool(let flag): flag.databaseValue
        case .int(let number): number.databaseValue
        case .double(let number): number.databaseValue
        case .string(let text): text.databaseValue
        case .data(let bytes): Data(bytes).databaseValue
        case .array, .object: Self.json(value ?? .null).databaseValue
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
    /// What the device calls them.
    private(set) var names = LocalIDs()
    /// Those that stand there under both of their ids; the row under the device's own is the one that counts.
    private(set) var twins: Set<RecordKey> = []
    /// Whether a record is here under the server's id that the device has yet to be told.
    private(set) var hasUnnamed = false
    /// References by an id that is not the device's own of what it shows.
    var strays: [Reference] { renamed.filter { rows[$0.target] != nil } }
    /// The same, and those to what is not shown by another id than its canonical one: who writes that writes another value.
    private(set) var renamed: [Reference] = []

    /// A field of a record, as the device calls it, that refers to a record, by its canonical id.
    typealias Reference = (record: RecordKey, field: String, id: String, target: RecordKey)

    /// - Parameter parsed: what JSON texts mean, kept for the next time.
    init(
        _ db: Database, _ schema: Schema, _ parsed: inout [String: FieldValue], _ ids: CanonicalIDs = CanonicalIDs()
    ) throws {
        var references: [Reference] = []
        for entity in schema.entities {
            // Each column by name: a connection that knew the table before an update of the app brought a column would take
            // `*` for the columns that there were.
            let columns = ([entity.keyColumn] + entity.fields.map(\.column)).map { "\"\($0)\"" }.joined(separator: ", ")
            try PlainRows(db, "SELECT \(columns) FROM \"\(entity.table)\"").forEach { row in
                var fields: [String: FieldValue] = [:]
                fields.reserveCapacity(entity.fields.count)
                for (place, field) in entity.fields.enumerated() {
                    let value = try row.field(CInt(place + 1), kind: field.kind, &parsed)
                    if !value.isNull { fields[field.name] = ids.value(value, of: field) }
                    if ids.areTwo, let target = field.reference?.entity, case .string(let id) = value {
                        let there = ids.key(RecordKey(target, id))
                        references.append((RecordKey(entity.name, row.text(0)), field.name, id, there))
                    }
                }
                let here = RecordKey(entity.name, row.text(0))
                let key = ids.key(here)
                if ids.areTwo, rows[key] != nil {
                    twins.insert(key)
                    guard here == key else { return }
                }
                if ids.areTwo { names.note(here.id, of: key) }
                rows[key] = fields
            }
        }
        renamed = references.filter { names.key($0.target).id != $0.id }
    }

    /// Who makes a record, and was not told its other id, does not know that what the server has is the same.
    mutating func leaveOut(_ unnamed: some Sequence<RecordKey>) {
        for key in unnamed where names.key(key) != key {
            rows[key] = nil
            names.forget(key)
            hasUnnamed = true
        }
    }

    func keys(_ entity: String) -> [RecordKey] { rows.keys.filter { $0.entity == entity }.sorted() }
}

/// Turns a tape's action into edits of what the device has at that moment, for whatever entities there are.
struct EditMaker {
    let schema: Schema
    let rows: Rows
    let device: Int
    let ids: any IDSource
    /// The world's seed: it decides which statements its app has.
    let seed: UInt64

    func edits(for action: WorkloadTape.Action) -> [LocalEdit] {
        switch action {
        case .create(let place, let parent, let fields):
            create(entity(at: place), parent: parent, fields: fields)
        case .update(let record, let fields): pick(record).map { update($0, fields) } ?? []
        case .transaction(let records, let fields, _): transaction(records, fields)
        case .move(let record, let target): move(record, to: target)
        case .delete(let record): pickForDeletion(record).map { [.delete($0)] } ?? []
        case .rewrite(let record):
            pick(record).map(rewrite) ?? []
        case .remake, .syncNow, .cancel, .retry, .discard: []
        }
    }

    private func entity(at place: Int) -> EntitySchema {
        schema.entities[place % schema.entities.count]
    }

    private func pick(_ number: UInt64, _ entity: String? = nil) -> RecordKey? {
        let all = entity.map { rows.keys($0) } ?? rows.rows.keys.sorted()
        return all.isEmpty ? nil : all[Int(number % UInt64(all.count))]
    }

    /// What has no parent is seldom deleted: it takes everything with it.
    private func pickForDeletion(_ number: UInt64) -> RecordKey? {
        guard let key = pick(number), let leaf = schema.entities.last else { return nil }
        let isRoot = schema[key.entity]?.parents.isEmpty ?? true
        return isRoot && number % 4 != 0 ? pick(number, leaf.name) : key
    }

    /// A new record under parents that are here, and with what else it must refer to; where there is none, that instead.
    /// - Parameter path: what is made instead of what: two that must refer to one another are never made.
    private func create(
        _ entity: EntitySchema, parent: UInt64, fields seed: UInt64, insteadOf path: [String] = []
    ) -> [LocalEdit] {
        guard !path.contains(entity.name) else { return [] }
        var fields = values(entity, SeededGenerator(seed: seed), all: true, of: nil)
        for field in entity.fields where field.reference?.isParent == true || field.isRequired {
            guard let target = field.reference.flatMap({ schema[$0.entity] }) else { continue }
            guard target.name != entity.name else {
                // Some stand under others of their kind.
                if seed >> 8 % 2 == 0 { fields[field.name] = pick(seed >> 16, entity.name).map { .string($0.id) } }
                continue
            }
            guard let parent = pick(parent, target.name) else {
                return create(target, parent: parent, fields: seed, insteadOf: path + [entity.name])
            }
            fields[field.name] = .string(parent.id)
        }
        // Each column by name, as apps insert; for SQLite it is one statement then, compiled once.
        for field in entity.fields where !field.isRequired && fields[field.name] == nil { fields[field.name] = .null }
        return [.insert(RecordKey(entity.name, ids.makeID()), fields)]
    }

    /// A record that was made before and does not show, made again under its id: as it was made, as an undo does, or another one.
    func remake(_ number: UInt64, of made: [RecordKey: [String: FieldValue]], fields seed: UInt64) -> [LocalEdit] {
        let gone = made.keys.filter { rows.rows[$0] == nil && schema[$0.entity] != nil }.sorted()
        guard !gone.isEmpty else { return [] }
        let key = gone[Int(number % UInt64(gone.count))]
        guard let entity = schema[key.entity],
            case .insert(_, var fields)? = create(entity, parent: number, fields: seed).first(where: {
                if case .insert(let made, _) = $0 { made.entity == key.entity } else { false }
            })
        else { return [] }
        if seed % 2 == 0 {
            let before = made[key] ?? [:]
            for field in entity.fields where field.reference == nil { fields[field.name] = before[field.name] ?? .null }
        }
        return [.insert(key, fields)]
    }

    private func update(_ key: RecordKey, _ seed: UInt64) -> [LocalEdit] {
        guard let entity = schema[key.entity] else { return [] }
        let fields = values(entity, SeededGenerator(seed: seed), all: false, of: rows.rows[key])
        return fields.isEmpty ? [] : [.update(key, fields)]
    }

    private func rewrite(_ key: RecordKey) -> [LocalEdit] {
        guard let entity = schema[key.entity], var fields = rows.rows[key] else { return [] }
        for field in entity.fields where fields[field.name] == nil { fields[field.name] = .null }
        return [.update(key, fields)]
    }

    private func transaction(_ records: [UInt64], _ seed: UInt64) -> [LocalEdit] {
        var edits = create(entity(at: schema.entities.count / 2), parent: seed, fields: seed)
        var seen: Set<RecordKey> = []
        for (place, number) in records.enumerated() {
            guard let key = pick(number), seen.insert(key).inserted else { continue }
            edits += update(key, seed &+ UInt64(place))
        }
        return edits
    }

    private func move(_ record: UInt64, to target: UInt64) -> [LocalEdit] {
        let movable = schema.entities.filter { !$0.parents.isEmpty }
        guard !movable.isEmpty else { return [] }
        let entity = movable[Int(target >> 3 % UInt64(movable.count))]
        guard !entity.parents.isEmpty, let key = pick(record, entity.name) else { return [] }
        let field = entity.parents[Int(target >> 5 % UInt64(entity.parents.count))]
        // Under another of its kind, also one that stands under it: a circle; or out of there.
        guard let parent = field.reference?.entity, let place = pick(target, parent), place != key else {
            return field.isRequired ? [] : [.update(key, [field.name: .null])]
        }
        return [.update(key, [field.name: .string(place.id)])]
    }

    /// Something that is directly under a root goes under another one.
    func movesBetweenRoots(_ number: UInt64) -> [LocalEdit] {
        let places = schema.entities.flatMap { entity in
            entity.parents.compactMap { field -> (EntitySchema, FieldSchema, EntitySchema)? in
                guard let parent = field.reference.flatMap({ schema[$0.entity] }), parent.parents.isEmpty else {
                    return nil
                }
                return (entity, field, parent)
            }
        }
        guard !places.isEmpty else { return [] }
        let (entity, field, parent) = places[Int(number % UInt64(places.count))]
        guard let key = pick(number >> 4, entity.name), let place = pick(number >> 12, parent.name) else { return [] }
        return [.update(key, [field.name: .string(place.id)])]
    }

    /// New values; texts name their writer, so that each value can be told from every other.
    private func values(
        _ entity: EntitySchema, _ generator: SeededGenerator, all: Bool, of row: [String: FieldValue]?
    ) -> [String: FieldValue] {
        var generator = generator
        let number = generator.below(all ? 3 : 5)
        let names = shape(of: entity, all: all, number)
        var fields: [String: FieldValue] = [:]
        for field in entity.fields where field.reference == nil {
            // What a new record has not is left out; what it has is a value.
            let value = value(field, row?[field.name], isNullable: !all, &generator)
            if names.contains(field.name) { fields[field.name] = value }
        }
        // One of an app's statements says what a record refers to.
        for field in entity.fields {
            guard let target = field.reference, !target.isParent, all ? generator.chance(0.3) : number == 0 else {
                continue
            }
            let known = rows.keys(target.entity)
            let refersToNothing = known.isEmpty || generator.chance(0.2)
            if refersToNothing, field.isRequired { continue }
            fields[field.name] = refersToNothing ? .null : .string(generator.pick(known).id)
        }
        return fields
    }

    /// The fields that one of the app's statements names: an app has a few for each table, and each seed another app.
    private func shape(of entity: EntitySchema, all: Bool, _ number: Int) -> Set<String> {
        let place = schema.entities.firstIndex { $0.name == entity.name } ?? 0
        var generator = SeededGenerator(seed: seed, stream: UInt64(0x73_6861 + place * 16 + number + (all ? 8 : 0)))
        let plain = entity.fields.filter { $0.reference == nil }
        // Most of what an app makes has all of its fields.
        if all, number > 0 { return Set(plain.map(\.name)) }
        var names: Set<String> = []
        for (place, field) in plain.enumerated() {
            let isWanted = generator.chance(all ? 0.7 : 0.35)
            if isWanted || (all && (field.isRequired || place == 0)) { names.insert(field.name) }
        }
        // An update of nothing is no statement.
        if names.isEmpty, let field = plain.first { names.insert(field.name) }
        return names
    }

    private func value(
        _ field: FieldSchema, _ present: FieldValue?, isNullable: Bool, _ generator: inout SeededGenerator
    ) -> FieldValue {
        let number = generator.next()
        if isNullable, !field.isRequired, field.rule == .lastWriter || field.rule == .check, number % 9 == 0 {
            return .null
        }
        switch field.kind {
        case .text: return .string("\(field.name) \(device).\(number % 1_000_000)")
        case .integer:
            guard field.rule == .sum else { return .int(Int64(number % 1_000)) }
            let present: Int64 = if case .int(let known)? = present { known } else { 0 }
            return .int(present + Int64(1 + number % 5))
        case .real: return .double(Double(number % (1 << 20)) / 64 + 0.25)
        case .boolean: return .bool(number % 2 == 0)
        case .date: return .string("2027-0\(1 + number % 9)-11T08:00:00.123Z")
        case .data: return .data([UInt8](repeating: UInt8(number % 251), count: 3))
        case .json:
            return field.rule == .union ? changed(present, number) : .array([.int(Int64(number % 100))])
        }
    }

    /// A set with one element put in or taken out.
    private func changed(_ value: FieldValue?, _ number: UInt64) -> FieldValue {
        var elements: [FieldValue] = if case .array(let present)? = value { present } else { [] }
        let element = FieldValue.string("t\(number % 6)")
        if let place = elements.firstIndex(of: element) {
            elements.remove(at: place)
        } else {
            elements.append(element)
        }
        return .array(elements)
    }
}
