import SyncCore

/// How much of an answer is taken, and where it waits.
public struct AnswerLimits: Sendable, Hashable {
    /// The most bytes of a body, inflated. An absolute limit and no ratio: a good page may be packed 30 to 1.
    public var total: Int
    /// Up to here a body stays in memory, beyond it goes into a temporary file.
    public var memory: Int
    /// The folder of that file; `nil` is the platform's.
    public var folder: String?

    public init(total: Int = 256 << 20, memory: Int = 1 << 20, folder: String? = nil) {
        self.total = total
        self.memory = memory
        self.folder = folder
    }
}

/// Takes a body piece by piece, inflated where it is gzip, until it is whole.
final class BodyCollector {
    private let limits: AnswerLimits
    private let inflater: Gzip.Inflater?
    private var memory: [UInt8] = []
    private var file: TemporaryFile?
    private(set) var received = 0
    private var total = 0

    init(limits: AnswerLimits, isGzip: Bool) throws(HTTPFailure) {
        self.limits = limits
        if isGzip {
            inflater = Gzip.Inflater()
            guard inflater != nil else { throw HTTPFailure(.local, "no memory to inflate an answer") }
        } else {
            inflater = nil
        }
    }

    func append(_ piece: [UInt8]) throws(HTTPFailure) {
        received += piece.count
        guard let inflater else {
            let result: Result<Void, HTTPFailure> = piece.withUnsafeBufferPointer { bytes in
                do throws(HTTPFailure) { return .success(try keep(bytes)) } catch { return .failure(error) }
            }
            return try result.get()
        }
        do throws(Gzip.InflateError<HTTPFailure>) {
            try inflater.inflate(piece) { bytes throws(HTTPFailure) in try keep(bytes) }
        } catch {
            switch error {
            case .corrupt: throw HTTPFailure(.unusable, "expected gzip as announced; it is corrupt")
            case .sink(let failure): throw failure
            }
        }
    }

    func finish() throws(HTTPFailure) -> AnswerBody {
        if let inflater, received > 0, !inflater.isWhole {
            throw HTTPFailure(.interrupted, "the compressed body ended after \(received) bytes, before its end")
        }
        if let file { return try AnswerBody(file) }
        return AnswerBody(memory)
    }

    private func keep(_ bytes: UnsafeBufferPointer<UInt8>) throws(HTTPFailure) {
        total += bytes.count
        guard total <= limits.total else {
            throw HTTPFailure(.unusable, "expected at most \(limits.total) bytes of answer; more came")
        }
        if let file { return try file.append(bytes) }
        guard total > limits.memory else {
            memory.append(contentsOf: bytes)
            return
        }
        let file = try TemporaryFile(in: limits.folder ?? TemporaryFile.platformFolder)
        let result: Result<Void, HTTPFailure> = memory.withUnsafeBufferPointer { kept in
            do throws(HTTPFailure) { return .success(try file.append(kept)) } catch { return .failure(error) }
        }
        try result.get()
        try file.append(bytes)
        memory = []
        self.file = file
    }
}
