public import SyncCore

/// A download log in memory.
public actor InMemoryDownloadLog: DownloadLog {
    private struct Wish {
        var request: DownloadRequest
        var isClaimed = false
        /// Asked for again since it was claimed.
        var isWishedAnew = false
    }

    /// In the order in which they were first asked for.
    private var wishes: [Wish] = []

    public init() {}

    public func ask(_ request: DownloadRequest) async throws(StoreFailure) {
        guard let place = wishes.firstIndex(where: { $0.request.scope == request.scope }) else {
            wishes.append(Wish(request: request))
            return
        }
        wishes[place].isWishedAnew = wishes[place].isClaimed
        wishes[place].request.priority = max(wishes[place].request.priority, request.priority)
    }

    public func claim() async throws(StoreFailure) -> DownloadRequest? {
        let free = wishes.indices.filter { !wishes[$0].isClaimed }
        guard let urgency = free.map({ wishes[$0].request.priority }).max(),
            let best = free.first(where: { wishes[$0].request.priority == urgency })
        else { return nil }
        wishes[best].isClaimed = true
        wishes[best].isWishedAnew = false
        return wishes[best].request
    }

    public func finish(_ scope: String) async throws(StoreFailure) {
        wishes.removeAll { $0.request.scope == scope && !$0.isWishedAnew }
        withdraw(scope)
    }

    public func withdraw(_ scope: String) {
        for place in wishes.indices where wishes[place].request.scope == scope { wishes[place].isClaimed = false }
    }
}
