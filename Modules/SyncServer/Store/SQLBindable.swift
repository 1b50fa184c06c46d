internal import GRDBSQLite

/// A value that a prepared statement takes straight from memory, without an array of converted ones between.
protocol SQLBindable {
    /// Binds it to the place, counted from 1.
    func bind(to statement: OpaquePointer, at place: CInt) -> CInt
}

extension Int64: SQLBindable {
    func bind(to statement: OpaquePointer, at place: CInt) -> CInt { sqlite3_bind_int64(statement, place, self) }
}

extension Int: SQLBindable {
    func bind(to statement: OpaquePointer, at place: CInt) -> CInt { sqlite3_bind_int64(statement, place, Int64(self)) }
}

extension Bool: SQLBindable {
    func bind(to statement: OpaquePointer, at place: CInt) -> CInt { sqlite3_bind_int(statement, place, self ? 1 : 0) }
}

extension String: SQLBindable {
    func bind(to statement: OpaquePointer, at place: CInt) -> CInt {
        var text = self
        return text.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) { characters in
                // An empty text has no address, and would be NULL.
                guard let start = characters.baseAddress else { return sqlite3_bind_text(statement, place, "", 0, nil) }
                return sqlite3_bind_text(statement, place, start, CInt(characters.count), copied)
            }
        }
    }
}

extension Optional: SQLBindable where Wrapped: SQLBindable {
    func bind(to statement: OpaquePointer, at place: CInt) -> CInt {
        switch self {
        case .some(let value): value.bind(to: statement, at: place)
        case .none: sqlite3_bind_null(statement, place)
        }
    }
}

/// SQLite's `SQLITE_TRANSIENT`, which is a C cast: the bytes are copied at once.
private let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

/// A text as the bytes of its UTF-8, which a writer of JSON has anyway.
struct TextBytes: SQLBindable {
    let bytes: [UInt8]

    func bind(to statement: OpaquePointer, at place: CInt) -> CInt {
        bytes.withUnsafeBytes { Self.bind($0, to: statement, at: place) }
    }

    static func bind(_ bytes: UnsafeRawBufferPointer, to statement: OpaquePointer, at place: CInt) -> CInt {
        // An empty text has no address, and would be NULL.
        guard let start = bytes.baseAddress, !bytes.isEmpty else {
            return sqlite3_bind_text(statement, place, "", 0, nil)
        }
        return sqlite3_bind_text(
            statement, place, start.assumingMemoryBound(to: CChar.self), CInt(bytes.count), copied)
    }
}
