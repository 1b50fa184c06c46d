extension FieldValue {
    /// The value of a whole JSON text (RFC 8259); `{"$data": "base64"}` is `.data`.
    ///
    /// An integer beyond 64 bits and a number beyond the doubles are refused. A `$data` that is not base64 stays the
    /// object that it is.
    ///
    /// - Throws: What is wrong, and where; reading the same again fails again.
    public init(json: [UInt8], maximumDepth: Int = JSONReader.contractDepth) throws(JSONFailure) {
        var reader = JSONReader(json, maximumDepth: maximumDepth)
        self = try reader.readValue()
        try reader.finish()
    }

    /// The value of a whole JSON text, as ``init(json:maximumDepth:)-([UInt8],_)`` reads its UTF-8.
    public init(json: String, maximumDepth: Int = JSONReader.contractDepth) throws(JSONFailure) {
        var reader = JSONReader(json, maximumDepth: maximumDepth)
        self = try reader.readValue()
        try reader.finish()
    }

    /// The compact UTF-8 JSON: members in the order of their names' bytes, doubles in the shortest form that reads
    /// back the same. Its count is what the contract calls a field's size.
    ///
    /// - Throws: A failure of kind `notANumber` for NaN and infinities.
    public func json() throws(JSONFailure) -> [UInt8] {
        var writer = JSONWriter()
        try writer.value(self)
        return writer.takeBytes()
    }

    /// ``json()`` as a string.
    public func jsonText() throws(JSONFailure) -> String {
        String(decoding: try json(), as: UTF8.self)
    }
}
