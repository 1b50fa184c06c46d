import SyncCore

/// One `FIELD=VALUE` or `FIELD:null` of the command line, before anybody asked what the field holds.
struct Assignment: Sendable, Hashable {
    let field: String
    /// The text behind `=`; `nil` for `FIELD:null`, which clears.
    let text: String?

    /// Splits an argument at its first `=`, so that a value may hold more of them.
    /// - Throws: a ``Problem`` with exit code 2 for what is neither form.
    init(_ argument: String) throws(Problem) {
        if let place = argument.firstIndex(of: "="), place != argument.startIndex {
            field = String(argument[..<place])
            text = String(argument[argument.index(after: place)...])
        } else if argument.hasSuffix(":null"), argument.count > 5 {
            field = String(argument.dropLast(5))
            text = nil
        } else {
            throw .usage("“\(argument)” is neither FIELD=VALUE nor FIELD:null.")
        }
    }

    /// The values by field name, each read by what the entity's table says it holds.
    /// - Throws: a ``Problem`` for an argument of another form, a field that is unknown or told twice, or a value of
    ///   another type.
    static func values(of arguments: [String], for entity: EntitySchema) throws(Problem) -> [String: FieldValue] {
        var assignments: [Assignment] = []
        for argument in arguments { assignments.append(try Assignment(argument)) }
        var values: [String: FieldValue] = [:]
        for assignment in assignments {
            guard let field = entity.field(assignment.field) else {
                throw Problem(
                    "\(entity.name) has no field “\(assignment.field)”; it has "
                        + "\(entity.fields.map(\.name).joined(separator: ", ")).")
            }
            guard values[field.name] == nil else { throw Problem("The field “\(field.name)” is told twice.") }
            let reader = FieldReader(entity: entity.name, field: field)
            if let text = assignment.text {
                values[field.name] = try reader.value(ofText: text)
            } else {
                values[field.name] = try reader.cleared()
            }
        }
        return values
    }
}
