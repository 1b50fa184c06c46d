import SyncCore

/// A list on stdout that is written part by part: it may be much longer than what fits into the memory at once.
struct ListOutput {
    /// One JSON value, or lines for people.
    let isJSON: Bool
    /// Whether nothing was told yet.
    private(set) var isEmpty = true

    init(isJSON: Bool) { self.isJSON = isJSON }

    /// Writes the next part.
    mutating func tell<Element>(_ part: [Element], json: (Element) -> FieldValue, line: (Element) -> String) {
        guard !part.isEmpty else { return }
        if isJSON {
            let texts = part.map { JSONText.text(json($0)) }
            Console.write((isEmpty ? "[" : ",") + texts.joined(separator: ","), isBeginning: isEmpty)
        } else {
            Console.print(part.map(line).joined(separator: "\n"))
        }
        isEmpty = false
    }

    /// Ends the list.
    /// - Parameter orElse: what is said of an empty one.
    func end(orElse nothing: String) {
        if isJSON {
            Console.write(isEmpty ? "[]\n" : "]\n", isBeginning: isEmpty)
        } else if isEmpty {
            Console.print(nothing)
        }
    }
}
