/// A value as an element of a set, equal as JSON: `1` and `1.0` are one, as ``FieldValue/isSame(as:)`` has it.
package struct SetElement: Sendable, Hashable {
    private let value: FieldValue

    package init(_ value: FieldValue) { self.value = Self.plain(value) }

    private static func plain(_ value: FieldValue) -> FieldValue {
        switch value {
        case .double(let number): Int64(exactly: number).map(FieldValue.int) ?? value
        case .array(let elements): .array(elements.map(plain))
        case .object(let members): .object(members.mapValues(plain))
        case .null, .bool, .int, .string, .data: value
        }
    }
}
