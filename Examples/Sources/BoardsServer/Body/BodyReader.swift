internal import HTTPTypes
internal import HummingbirdCore
internal import NIOCore
internal import NIOPosix

/// Reads a request's body whole, within its limits, and inflates it before anybody looks at it.
struct BodyReader: Sendable {
    let limits: ConnectionLimits
    let vitals: ServerVitals

    /// The encodings that a body may come in.
    private enum Encoding { case plain, gzip }

    /// A body that is held, and counted as such until ``release(_:)``.
    struct Held: Sendable {
        var bytes: [UInt8]
        fileprivate var counted: Int
    }

    /// The whole body, plain.
    func read(_ request: Request) async throws(Problem) -> Held {
        let encoding = try encoding(of: request.headers)
        if let length = request.headers[.contentLength].flatMap(RequestWords.length), length > limits.bodyBytes {
            throw .tooLarge(limits.bodyBytes)
        }
        guard vitals.held < limits.heldBytes else { throw .unavailable("The server holds too much already.") }
        var held = try await collect(request)
        guard encoding == .gzip else { return held }
        do {
            let plain = try await inflated(held.bytes)
            vitals.holdRequest(plain.count)
            held.counted += plain.count
            held.bytes = plain
            return held
        } catch {
            release(held)
            throw error
        }
    }

    /// The body was decided; its bytes count no longer.
    func release(_ held: Held) { vitals.releaseRequest(held.counted) }

    private func collect(_ request: Request) async throws(Problem) -> Held {
        var held = Held(bytes: [], counted: 0)
        do {
            for try await piece in request.body {
                vitals.holdRequest(piece.readableBytes)
                held.counted += piece.readableBytes
                guard held.counted <= limits.bodyBytes else { throw Problem.tooLarge(limits.bodyBytes) }
                guard vitals.held <= limits.heldBytes else {
                    throw Problem.unavailable("The server holds too much already.")
                }
                held.bytes.append(contentsOf: piece.readableBytesView)
            }
            return held
        } catch {
            release(held)
            throw error as? Problem ?? .malformed("The request broke off.")
        }
    }

    private func inflated(_ bytes: [UInt8]) async throws(Problem) -> [UInt8] {
        let limit = limits.bodyBytes
        do {
            // A small body can be a bomb too: only one that cannot grow large is inflated here.
            guard bytes.count > 256 else { return try Gzip.inflate(bytes, limit: limit) }
            return try await NIOThreadPool.singleton.runIfActive { try Gzip.inflate(bytes, limit: limit) }
        } catch Gzip.Failure.tooLarge {
            throw .tooLarge(limit)
        } catch Gzip.Failure.damaged {
            throw .malformed("The body is not complete gzip.")
        } catch {
            throw .unavailable("The body could not be inflated now.")
        }
    }

    private func encoding(of fields: HTTPFields) throws(Problem) -> Encoding {
        let names = (fields[.contentEncoding] ?? "").split(separator: ",").map { $0.trimmed.lowercased() }
            .filter { $0 != "identity" && !$0.isEmpty }
        switch names {
        case []: return .plain
        case ["gzip"], ["x-gzip"]: return .gzip
        default:
            var problem = Problem.unsupportedMediaType("A body may be plain or gzip.")
            problem.headers.append(("Accept-Encoding", "gzip"))
            throw problem
        }
    }
}

extension HTTPFields {
    /// Whether the body is said to be JSON in UTF-8.
    var isJSON: Bool {
        guard let field = self[.contentType] else { return false }
        // As nearly everybody writes it.
        if field == "application/json" { return true }
        let parts = field.split(separator: ";", omittingEmptySubsequences: false).map { $0.trimmed.lowercased() }
        guard parts.first == "application/json" else { return false }
        return parts.dropFirst().allSatisfy { part in
            guard part.hasPrefix("charset=") else { return true }
            return ["utf-8", "utf8"].contains(part.dropFirst(8).trimmingQuotes)
        }
    }
}

extension Substring {
    fileprivate var trimmingQuotes: String {
        count >= 2 && hasPrefix("\"") && hasSuffix("\"") ? String(dropFirst().dropLast()) : String(self)
    }
}
