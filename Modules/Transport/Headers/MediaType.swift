import HTTPTypes

extension HTTPFields {
    /// The media type in lower case, without parameters; `nil` if there is none, or if several disagree.
    var mediaType: String? {
        let types = Set(
            self[values: .contentType].map { line in
                let type = line.prefix { $0 != ";" }
                return String(type.filter { $0 != " " && $0 != "\t" }).lowercased()
            })
        return types.count == 1 ? types.first : nil
    }
}
