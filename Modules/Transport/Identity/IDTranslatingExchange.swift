public import SyncCore

/// An exchange with a server that makes its own ids: inside the app an id never changes, on the wire the server's
/// stands in its place (DESIGN.md, D3).
///
/// Translated are the records' own ids, the fields that the schema declares as references, and the scopes; an id within
/// a text, a URL or JSON is not. A change that needs a record whose create goes with the same request waits for the next
/// one, so that it goes out under the server's id from its first try on and its content stays the same; only a unit,
/// which cannot be divided, carries the device's ids for what it creates itself. Where nobody knows whether the server makes
/// ids, ``IDWaiting/onceNamed`` lets that begin with the first id that it makes.
public struct IDTranslatingExchange: Exchange {
    private let exchange: any Exchange
    private let translator: IDTranslator

    /// - Parameters:
    ///   - exchange: what speaks to the server.
    ///   - schema: which fields are references.
    ///   - translation: the map; Storage's `Store` is one.
    ///   - waits: whether what needs a new record waits until the server has named it.
    public init(
        _ exchange: any Exchange, schema: Schema, translation: any IDTranslation, waits: IDWaiting = .always
    ) {
        self.exchange = exchange
        translator = IDTranslator(schema: schema, ids: translation, waits: waits)
    }

    /// What was made of a request, and of which changes.
    private struct Prepared: Sendable {
        var changes: [Change]
        var inner: any Sendable
    }

    public func prepare(_ request: ExchangeRequest) -> (any Sendable)? {
        do throws(StoreFailure) {
            let sent = try translator.outgoing(request)
            return exchange.prepare(sent).map { Prepared(changes: sent.changes, inner: $0) }
        } catch {
            // kept: the request itself meets the same, and tells.
            return nil
        }
    }

    public func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        try await exchange(request, prepared: nil)
    }

    public func exchange(
        _ request: ExchangeRequest, prepared: (any Sendable)?
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        let sent = try IDTranslator.attempt { () throws(StoreFailure) in try translator.outgoing(request) }
        let ready = prepared as? Prepared
        var answer = try await exchange.exchange(sent, prepared: ready?.changes == sent.changes ? ready?.inner : nil)
        answer.results = try IDTranslator.attempt { () throws(StoreFailure) in
            try translator.incoming(answer.results, to: sent.changes, as: request.changes)
        }
        if sent.changes.count < request.changes.count { answer.sentCount = answer.sentCount ?? sent.changes.count }
        answer.page = TranslatedPage(page: answer.page, translator: translator)
        return answer
    }

    public func close() async { await exchange.close() }
}

/// When a change that needs a record which goes out new with it waits until the server has named that record.
public enum IDWaiting: Sendable {
    /// From the first request on: the server is known to make its own ids.
    case always
    /// Once the server has named any record otherwise than the device. Until then everything goes together, and a server that
    /// makes ids must resolve the device's for what one request creates.
    case onceNamed
}

/// A page whose records are named as on this device, slice by slice: what the verdicts of the same answer brought is in
/// the map by then.
private struct TranslatedPage: RecordPage {
    let page: any RecordPage
    let translator: IDTranslator

    var count: Int { page.count }

    func next(maxRecords: Int, maxBytes: Int) throws(ExchangeFailure) -> [ServerRecord] {
        let records = try page.next(maxRecords: maxRecords, maxBytes: maxBytes)
        return try IDTranslator.attempt { () throws(StoreFailure) in try translator.incoming(records) }
    }
}

/// A sender to a server that makes its own ids; as ``IDTranslatingExchange``.
public struct IDTranslatingSender: ChangeSender {
    private let sender: any ChangeSender
    private let translator: IDTranslator
    public var sendsValues: Bool { sender.sendsValues }

    /// - Parameters:
    ///   - sender: what speaks to the server.
    ///   - schema: which fields are references.
    ///   - translation: the map; Storage's `Store` is one.
    public init(_ sender: any ChangeSender, schema: Schema, translation: any IDTranslation) {
        self.sender = sender
        translator = IDTranslator(schema: schema, ids: translation)
    }

    public func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult] {
        let sent = try IDTranslator.attempt { () throws(StoreFailure) in try translator.outgoing(changes) }
        let results = try await sender.send(sent, deviceID: deviceID)
        return try IDTranslator.attempt { () throws(StoreFailure) in
            try translator.incoming(results, to: sent, as: changes)
        }
    }

    public func probe() async throws(ExchangeFailure) { try await sender.probe() }
}
