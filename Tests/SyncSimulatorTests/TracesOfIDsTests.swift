import Testing

@testable import SyncSimulator

@Suite struct TracesOfIDsTests {
    @Test("SEC-11 each of many ids is found wherever it stands in the bytes, and nothing else is")
    func found() {
        let ids = (0..<40).map { "0195a3f2-c4d1-7000-8000-0000000000\(10 + $0)" }
        let search = TracesOfIDs(ids)
        let noise = [UInt8]("--0195a3f2-c4d1-7000-8000-00000000-----0195a3f2-c4d1-7000-9000-000000000010-".utf8)
        #expect(search.found(in: noise).isEmpty)
        for id in [ids[0], ids[39]] {
            #expect(search.found(in: [UInt8](id.utf8)) == [id])
            #expect(search.found(in: [UInt8](id.utf8).dropLast()).isEmpty)
            #expect(search.found(in: noise + [UInt8](id.utf8) + noise) == [id])
        }
        #expect(search.found(in: ids.flatMap { [0] + [UInt8]($0.utf8) }) == ids)
        #expect(search.found(in: []).isEmpty)
        #expect(TracesOfIDs([String]()).found(in: noise).isEmpty)
    }
}
