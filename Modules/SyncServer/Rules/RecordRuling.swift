internal import SyncCore

/// What a record made of a change, before its parents are looked at.
struct RecordRuling: Sendable {
    enum Kind: Sendable, Hashable {
        case applied, merged, conflict
        case rejected(Rejection)
    }

    var kind: Kind
    /// Whether what readers see, or a write that counts, is another: the record gets a new version.
    var hasEffect: Bool
    /// Whether every value is what the device sent, over nothing that it did not know.
    var isAsSent: Bool
    /// A delete of what is not there: answered without a version.
    var isNothing: Bool
    /// The values that were replaced and were not the change's `old`.
    var overwrote: [(name: String, value: FieldValue)] = []
    /// How many elements of sets it had to go through.
    var elements: Int

    init(_ kind: Kind, hasEffect: Bool, isAsSent: Bool = false, isNothing: Bool = false, elements: Int = 0) {
        self.kind = kind
        self.hasEffect = hasEffect
        self.isAsSent = isAsSent
        self.isNothing = isNothing
        self.elements = elements
    }

    static func refused(_ code: Rejection.Code, _ message: String, field: String? = nil) -> RecordRuling {
        RecordRuling(.rejected(Rejection(code: code, message: message, field: field)), hasEffect: false)
    }
}
