/// What a server that makes its own ids calls a record, and what it is called here (DESIGN.md, D3).
///
/// Asked for by Transport, given by Storage, whose map is written with the verdict about the create that brought the
/// server's id. Only an app whose server makes ids composes it; nobody else pays for it. An implementer answers each
/// call from one state of its map, without waiting for anything but a read, and from any thread; who is not in the map
/// is not in the answer, and is called the same on both sides. Fake it with a dictionary.
public protocol IDTranslation: Sendable {
    /// Whether the server has named any record otherwise than this device; where it has not, nothing is translated.
    /// By default it may have. What once was so stays so until the account is wiped.
    func hasServerIDs() throws(StoreFailure) -> Bool
    /// The server's ids of records that are named as on this device.
    func serverIDs(of records: Set<RecordKey>) throws(StoreFailure) -> [RecordKey: String]
    /// This device's ids of records that are named as on the server; a record keeps its local id for ever.
    func localIDs(of records: Set<RecordKey>) throws(StoreFailure) -> [RecordKey: String]
}

extension IDTranslation {
    public func hasServerIDs() throws(StoreFailure) -> Bool { true }
}
