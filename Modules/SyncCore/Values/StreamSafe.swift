/// Texts that can be compared and hashed in a time that grows with their length alone.
///
/// Swift holds texts for equal whose accents are composed in another way. For that it sorts the marks behind a letter, and
/// thousands of them in a row take a time that grows with the square of their number. The Unicode Standard (Annex 15,
/// *Stream-Safe Text Format*) allows 30 in a row, and has U+034F put between more.
extension String {
    /// How many marks may stand in a row.
    package static let mostMarks = 30

    /// Whether nowhere more than ``mostMarks`` stand in a row.
    package var isStreamSafe: Bool {
        var text = self
        if text.withUTF8({ UnsafeRawBufferPointer($0).isASCII }) { return true }
        var marks = 0
        for scalar in text.unicodeScalars {
            marks = scalar.isMark ? marks + 1 : 0
            if marks > Self.mostMarks { return false }
        }
        return true
    }

    /// The same text, with U+034F between more than ``mostMarks`` marks.
    package var streamSafe: String {
        guard !isStreamSafe else { return self }
        var safe = ""
        var marks = 0
        for scalar in unicodeScalars {
            marks = scalar.isMark ? marks + 1 : 0
            if marks > Self.mostMarks {
                safe.unicodeScalars.append("\u{34f}")
                marks = 1
            }
            safe.unicodeScalars.append(scalar)
        }
        return safe
    }
}

extension Unicode.Scalar {
    /// Whether it is put in an order with those beside it, or is made of such alone.
    fileprivate var isMark: Bool {
        guard value >= 0x300 else { return false }
        switch value {
        case 0xf73, 0xf75, 0xf81: return true
        default: return properties.canonicalCombiningClass != .notReordered
        }
    }
}

extension UnsafeRawBufferPointer {
    fileprivate var isASCII: Bool {
        var index = 0
        while index + 8 <= count {
            guard loadUnaligned(fromByteOffset: index, as: UInt64.self) & 0x8080_8080_8080_8080 == 0 else {
                return false
            }
            index += 8
        }
        while index < count {
            guard self[index] < 0x80 else { return false }
            index += 1
        }
        return true
    }
}
