import BoardsServer
import Testing

@Suite struct ServerOptionsTests {
    @Test("a server listens on this machine alone unless told otherwise")
    func loopbackByDefault() {
        #expect(ServerOptions().host == "127.0.0.1")
    }
}
