/// Why bytes are not the JSON that was asked for, or a value cannot be written as JSON.
///
/// Retrying gives the same again: the bytes, or the value, are at fault.
public struct JSONFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// What kind of fault it is.
    public enum Kind: Sendable, Hashable {
        /// A byte that the grammar (RFC 8259) does not have here.
        case syntax
        /// The bytes end within a value.
        case truncated
        /// A whole value is followed by something.
        case trailingBytes
        /// Not UTF-8, or half a surrogate pair in an escape.
        case text
        /// A member of an object is told twice; names that Unicode holds for equal are one.
        case duplicateMember
        /// Deeper than the reader's limit.
        case tooDeep
        /// Well-formed, but of another type than was asked for. The reader still stands before the value.
        case wrongType
        /// A number beyond 64 bits, beyond the greatest double, or longer than 4,096 bytes. The reader still stands
        /// before the value.
        case numberDoesNotFit
        /// NaN or an infinity, which JSON cannot say; from a writer only.
        case notANumber
        /// The text of a `{"$data": …}` is not base64 (RFC 4648, section 4); only reported, never thrown.
        case notBase64
    }

    public var kind: Kind
    /// The byte at which it was seen, from the start of the reader's bytes; 0 from a writer.
    public var offset: Int
    /// What would have been right there.
    public var expected: String

    public init(_ kind: Kind, offset: Int, expected: String) {
        self.kind = kind
        self.offset = offset
        self.expected = expected
    }

    public var description: String { "\(kind) at byte \(offset): expected \(expected)" }
}
