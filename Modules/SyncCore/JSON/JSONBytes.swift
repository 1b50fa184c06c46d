/// Bytes that do not change and that several readers may share: a copy of an array, or memory that somebody lends.
///
/// Sendable because it is never written after `init`, and freed by the last reference only.
public final class JSONBytes: Sendable {
    /// The first byte; valid as long as this object lives.
    nonisolated(unsafe) let base: UnsafePointer<UInt8>
    /// How many bytes there are.
    public let count: Int
    private let free: @Sendable (UnsafeRawBufferPointer) -> Void

    /// A copy of `bytes`.
    public init(_ bytes: some Collection<UInt8>) {
        let memory = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: max(bytes.count, 1))
        count = memory.initialize(fromContentsOf: bytes)
        base = UnsafePointer(memory.baseAddress!)
        free = { $0.deallocate() }
    }

    /// Lent memory, a mapped file for instance.
    ///
    /// The memory must stay valid and unchanged until `free` is called, which happens once, when nobody reads it any more.
    public init(
        lending bytes: UnsafeRawBufferPointer,
        free: @escaping @Sendable (UnsafeRawBufferPointer) -> Void
    ) {
        guard let address = bytes.baseAddress, !bytes.isEmpty else {
            let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 1, alignment: 1)
            base = UnsafePointer(memory.baseAddress!.assumingMemoryBound(to: UInt8.self))
            count = 0
            // Nothing was lent: what was made here is freed, and the lender told at once.
            self.free = { $0.deallocate() }
            free(bytes)
            return
        }
        base = address.assumingMemoryBound(to: UInt8.self)
        count = bytes.count
        self.free = free
    }

    deinit {
        free(UnsafeRawBufferPointer(start: base, count: count))
    }

    /// A part, lent for a call; `range` is cut to what there is.
    package func withBytes<T>(_ range: Range<Int>, _ body: (UnsafeRawBufferPointer) -> T) -> T {
        let cut = range.clamped(to: 0..<count)
        return body(UnsafeRawBufferPointer(start: base + cut.lowerBound, count: cut.count))
    }

    /// A copy of a part; `range` is cut to what there is.
    public subscript(range: Range<Int>) -> [UInt8] {
        let cut = range.clamped(to: 0..<count)
        return Array(UnsafeBufferPointer(start: base + cut.lowerBound, count: cut.count))
    }
}
