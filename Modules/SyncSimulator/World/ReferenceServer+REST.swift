import HTTPTypes
import SyncCore
import SyncServer

extension RESTRequest {
    init(_ request: HTTPRequest, _ body: [UInt8]) {
        let parts = (request.path ?? "").split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        self.init(
            method: request.method.rawValue, path: String(parts.first ?? ""),
            query: parts.count > 1 ? String(parts[1]) : "",
            headers: request.headerFields.map { .init($0.name.rawName, $0.value) }, body: body)
    }
}

extension ChangeResult {
    /// The version that the change made.
    var madeVersion: Int64? { if case .applied(let version, _, _) = verdict { version } else { nil } }
}
