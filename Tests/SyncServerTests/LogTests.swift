import SyncCore
import Testing

@testable import SyncServer

@Suite("The write-ahead log")
struct LogTests {
    @Test("a long log is brought into the file between requests, and begins anew; nothing is lost by it")
    func broughtIn() throws {
        let server = try TestServer()
        var made = 0
        func make() throws {
            made += 1
            let text = FieldValue.string(String(repeating: "x", count: 100_000))
            let create = server.create("k\(made)", Int64(made), "board", "b\(made)", ["name": text])
            try server.sync("d", [create], from: Int64(made - 1))
        }
        #expect(!server.service.isLogLong)
        server.service.bringLogIn()
        while !server.service.isLogLong { try make() }
        #expect(made > 50)
        server.service.bringLogIn()
        try make()
        #expect(!server.service.isLogLong, "the log began anew")
        #expect(try server.service.currentVersion(account: "a") == Int64(made))
        try server.service.close()
        server.service.bringLogIn()
    }
}
