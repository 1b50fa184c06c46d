internal import SyncCore

/// The answer of `POST /api/sync`, written.
struct SyncAnswer {
    let request: SyncRequest
    let account: AccountContext
    let epoch: String
    let now: Int64
    let outcomes: [ChangeOutcome]
    let members: [String]
    let page: Page
    let checksum: UInt64?

    func reply() throws(JSONFailure) -> ServerReply {
        var writer = JSONWriter(capacity: 512 + (outcomes.isEmpty ? 0 : page.tail.count) + outcomes.count * 112)
        writer.beginObject()
        writer.key("protocol")
        writer.int(1)
        writer.key("cycleID")
        writer.string(request.cycleID)
        writer.key("dataset")
        writer.string(account.dataset)
        writer.key("epoch")
        writer.string(epoch)
        writer.key("currentSyncVersion")
        writer.int(page.version)
        writer.key("hasMore")
        writer.bool(page.hasMore)
        writer.key("serverTime")
        writer.string(Timestamp.text(now))
        let highest = outcomes.indices.reduce(page.highestStamp) { Swift.max($0, outcomes[$1].stamp ?? .zero) }
        if highest > .zero {
            writer.key("stamp")
            writer.string(highest.description)
        }
        writer.key("oldestVersion")
        writer.int(account.oldest)
        writer.key("count")
        writer.int(Int64(page.count))
        if let checksum {
            writer.key("checksum")
            writer.string(Checksum.text(checksum))
        }
        writer.key("results")
        writer.beginArray()
        // By their places: a loop over both would copy each outcome twice.
        for place in outcomes.indices { OutcomeWriter.write(outcomes[place], members: members[place], into: &writer) }
        writer.endArray()
        writer.key("changedRecords")
        if page.count == 0 {
            writer.beginArray()
            writer.endArray()
            writer.endObject()
        } else if !outcomes.isEmpty {
            writer.raw(page.tail)
        } else {
            // Nothing that follows from the request stands in what is left: it may have been packed ahead.
            return ServerReply(
                status: 200, headers: Self.headers, first: writer.takeBytes(),
                tail: ServerReply.Tail(bytes: page.tail, packed: page.packed))
        }
        return ServerReply(status: 200, headers: Self.headers, body: writer.takeBytes())
    }

    private static let headers = [ServerReply.Header("Content-Type", "application/json")]
}
