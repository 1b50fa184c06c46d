import Foundation
import HTTPTypes
import Logging
import Measuring
import SyncCore
import Transport

/// What the batch dialect costs: the codec beside Foundation's on the same bytes, and the memory of a long answer.
enum TransportBenchmark {
    static func run(in folder: URL) async throws -> [Figure] {
        let page = SamplePage(records: 10_000)
        // The memory first: a peak does not fall again.
        return [try await memory(folder)] + (try await decoding(page)) + [try encoding(page)] + (try await wire())
    }

    /// A page's bytes into records, and the whole way of an answer, with the file that it waits in and all checks, beside
    /// JSONDecoder.
    private static func decoding(_ page: SamplePage) async throws -> [Figure] {
        let body = try page.answer()
        let exchange = try BatchExchange(endpoint: "https://localhost", http: CannedHTTP(pieces: [body]), logger: quiet)
        var whole: [Double] = []
        var decoded: [Double] = []
        var theirs: [Double] = []
        let data = Data(body)
        for _ in 0..<9 {
            let start = processorSeconds()
            let answer = try await exchange.exchange(SamplePage.request)
            let checked = processorSeconds()
            var count = 0
            while case let slice = try answer.page.next(maxRecords: 500, maxBytes: 1 << 20), !slice.isEmpty {
                count += slice.count
            }
            let end = processorSeconds()
            decoded.append(end - checked)
            whole.append(end - start)
            precondition(count == page.records.count)
            let read = try JSONDecoder().decode(SamplePage.CodableAnswer.self, from: data)
            theirs.append(processorSeconds() - end)
            precondition(read.changedRecords.count == count)
        }
        return [
            Figure(
                name: "transport-decode",
                what: "processor time: a page of 10,000 records (\(body.count) bytes) decoded, against JSONDecoder",
                value: middle(decoded) * 1e3, unit: "ms", bare: middle(theirs) * 1e3, goal: 0.2),
            Figure(
                name: "transport-answer",
                what: "the same and everything before it: kept in a file, checked from the first byte to the last",
                value: middle(whole) * 1e3, unit: "ms", bare: middle(theirs) * 1e3, goal: 0.3),
        ]
    }

    private static func encoding(_ page: SamplePage) throws -> Figure {
        let codable = page.codable()
        var sizes: Set<Int> = []
        var ours: [Double] = []
        var theirs: [Double] = []
        for _ in 0..<9 {
            let start = processorSeconds()
            sizes.insert(try page.answer().count)
            let middle = processorSeconds()
            sizes.insert(try JSONEncoder().encode(codable).count)
            ours.append(middle - start)
            theirs.append(processorSeconds() - middle)
        }
        precondition(sizes.allSatisfy { $0 > 1_000_000 })
        return Figure(
            name: "transport-encode",
            what: "processor time: a page of 10,000 records written, against JSONEncoder",
            value: middle(ours) * 1e3, unit: "ms", bare: middle(theirs) * 1e3, goal: 0.2)
    }

    /// How far the process's peak rises while an answer of 100 MB is taken and decoded.
    private static func memory(_ folder: URL) async throws -> Figure {
        let pieces = SamplePage.hugePieces(bytes: 100_000_000)
        let http = CannedHTTP(count: pieces.count, piece: pieces.piece)
        let exchange = try BatchExchange(endpoint: "https://localhost", http: http, logger: quiet)
        let before = peakBytes()
        let answer = try await exchange.exchange(SamplePage.request)
        var count = 0
        while case let slice = try answer.page.next(maxRecords: 500, maxBytes: 1 << 20), !slice.isEmpty {
            count += slice.count
        }
        precondition(count == answer.page.count)
        return Figure(
            name: "transport-memory", what: "the rise of the peak memory by an answer of 100 MB, in MB; bare is 1 MB",
            value: Double(peakBytes() - before) / 1e6, unit: "MB", bare: 1, goal: 30)
    }

    static let quiet = Logger(label: "benchmark") { _ in SwiftLogNoOpLogHandler() }

    static func middle(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

    #if !HTTP
        /// Needs an HTTP client: `Tests/Benchmarks/run wire`.
        private static func wire() async throws -> [Figure] { [] }
    #endif

    /// What the process has worked so far: on a machine that others use, too, the clock on the wall says little.
    static func processorSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    }

    /// The greatest resident memory of this process so far.
    private static func peakBytes() -> Int {
        var usage = rusage()
        #if canImport(Darwin)
            getrusage(RUSAGE_SELF, &usage)
            return usage.ru_maxrss
        #else
            getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
            return usage.ru_maxrss * 1024
        #endif
    }
}

/// Answers every request with the same pieces.
struct CannedHTTP: HTTPTransport {
    let count: Int
    let piece: @Sendable (Int) -> [UInt8]

    init(pieces: [[UInt8]]) { self.init(count: pieces.count) { pieces[$0] } }

    init(count: Int, piece: @escaping @Sendable (Int) -> [UInt8]) {
        self.count = count
        self.piece = piece
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        var head = HTTPResponse(status: .ok)
        head.headerFields[.contentType] = "application/json"
        let next = Counter()
        let (count, piece) = (count, piece)
        return HTTPAnswer(
            head: head,
            body: HTTPBody { () async throws(HTTPFailure) -> [UInt8]? in
                let index = next.take()
                return index < count ? piece(index) : nil
            })
    }

    func close() async {}
}

/// 0, 1, 2 …
private final class Counter: @unchecked Sendable {
    // Sendable: touched under the lock alone.
    private let lock = NSLock()
    private var next = 0

    func take() -> Int {
        lock.withLock {
            defer { next += 1 }
            return next
        }
    }
}
