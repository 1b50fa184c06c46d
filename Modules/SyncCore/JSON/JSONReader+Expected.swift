extension JSONReader {
    /// Takes the next value if it stands here byte by byte as expected: `head`, `text`, `middle`, an integer from 1 on of at
    /// most 18 digits, and `}`. Else takes nothing, and it may be the same in another form.
    ///
    /// For one object of very many that nearly all read so; the three must make one JSON object of it.
    ///
    /// - Returns: the integer.
    package mutating func takeObject(_ head: StaticString, _ text: String, _ middle: StaticString) -> Int64? {
        var position = offset
        guard stands(head, at: &position) else { return nil }
        var text = text
        let isHere = text.withUTF8 { wanted in
            guard position + wanted.count <= end else { return false }
            for index in wanted.indices {
                let byte = wanted[index]
                // Such a text would stand here in another form.
                guard byte == base[position + index], byte != 0x22, byte != 0x5c, byte >= 0x20 else { return false }
            }
            position += wanted.count
            return true
        }
        guard isHere, stands(middle, at: &position) else { return nil }
        let start = position
        var number: Int64 = 0
        while position < end, case 0x30...0x39 = base[position] {
            number = number &* 10 &+ Int64(base[position] &- 0x30)
            position += 1
        }
        guard (1...18).contains(position - start), base[start] != 0x30, position < end, base[position] == 0x7d else {
            return nil
        }
        offset = position + 1
        return number
    }

    private func stands(_ text: StaticString, at position: inout Int) -> Bool {
        let length = text.utf8CodeUnitCount
        guard position + length <= end else { return false }
        for index in 0..<length where base[position + index] != text.utf8Start[index] { return false }
        position += length
        return true
    }
}
