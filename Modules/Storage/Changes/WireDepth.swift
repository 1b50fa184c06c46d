import SyncCore

/// How deep a value may be nested so that a request with it keeps the contract's depth (PROTOCOL.md, section 4, *Limits*).
enum WireDepth {
    /// The body, the array of changes, the change, its fields and the field stand around a value.
    static let value = JSONReader.contractDepth - 5

    /// Whether the value is nested deeper than a request can carry.
    static func isExceeded(by value: FieldValue) -> Bool { isDeeper(value, than: Self.value) }

    private static func isDeeper(_ value: FieldValue, than levels: Int) -> Bool {
        switch value {
        case .array(let elements):
            levels == 0 || elements.contains { isDeeper($0, than: levels - 1) }
        case .object(let members):
            levels == 0 || members.values.contains { isDeeper($0, than: levels - 1) }
        case .null, .bool, .int, .double, .string, .data: false
        }
    }
}
