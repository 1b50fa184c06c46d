import HTTPTypes
import Synchronization

/// Sends bodies of 1 KiB or more as gzip; after a 415 the same request once more, and all later ones, plain.
final class CompressionCaller: Caller {
    private static let least = 1024

    private let next: any Caller
    private let isRefused = Atomic<Bool>(false)

    init(next: any Caller) { self.next = next }

    /// A body as it is sent compressed; `nil` for one that goes as it is.
    static func packed(_ body: [UInt8]) -> [UInt8]? { body.count >= least ? Gzip.compress(body) : nil }

    func call(_ call: Call, watch: Watch) async throws(HTTPFailure) -> Answer {
        guard !isRefused.load(ordering: .relaxed), let compressed = call.packed ?? Self.packed(call.body) else {
            return try await next.call(call, watch: watch)
        }
        var packed = call
        (packed.body, packed.packed) = (compressed, nil)
        packed.request.headerFields[.contentEncoding] = "gzip"
        let answer = try await next.call(packed, watch: watch)
        guard answer.status == 415 else { return answer }
        // A 415 says that the body was not even read: nothing was done (RFC 9110, section 15.5.16).
        var second = try await next.call(call, watch: watch)
        if second.status != 415 { isRefused.store(true, ordering: .relaxed) }
        second.bytesSent += answer.bytesSent
        second.bytesReceived += answer.bytesReceived
        return second
    }
}
