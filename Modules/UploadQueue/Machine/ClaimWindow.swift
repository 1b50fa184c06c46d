/// How many changes one claim takes while the exchange leaves most of each out, as one does that waits until a server has named what
/// comes first: to mark a thousand changes, and put them back, for each two that go costs more than the request.
struct ClaimWindow: Sendable, Hashable {
    /// Fewer save nothing.
    static let least = 16

    /// The present limit; `nil` is none.
    private(set) var limit: Int?

    /// So many of a claim's changes went.
    /// - Parameter most: what a claim takes without this.
    mutating func went(_ sent: Int, of count: Int, most: Int) {
        guard sent >= count else {
            limit = max(Self.least, 2 * sent)
            return
        }
        // Only a full one says that more may go.
        guard let limit, count >= limit else { return }
        self.limit = 2 * limit < most ? 2 * limit : nil
    }
}
