import Foundation

/// The decoder that the environment variable FUZZ names; libFuzzer calls it with every input.
private let decoder: @Sendable ([UInt8]) -> Void = {
    let decoders: [String: @Sendable ([UInt8]) -> Void] = [
        "json": FuzzJSON.run, "answer": FuzzAnswer.page, "rest": FuzzAnswer.change, "head": FuzzAnswer.head,
        "gzip": FuzzAnswer.packed,
    ]
    let name = ProcessInfo.processInfo.environment["FUZZ"] ?? "json"
    guard let decoder = decoders[name] else { fatalError("FUZZ is one of \(decoders.keys.sorted())") }
    return decoder
}()

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    decoder(Array(UnsafeBufferPointer(start: bytes, count: count)))
    return 0
}

/// What must hold for every input; a trap is what libFuzzer reports.
func must(_ condition: Bool, _ what: @autoclosure () -> String) {
    if !condition { fatalError(what()) }
}
