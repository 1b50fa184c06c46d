import SyncCore
import Transport

@main struct Consumer {
    static func main() async throws {
        let exchange = try BatchExchange(endpoint: "http://127.0.0.1:9", http: AsyncHTTPClientTransport())
        do throws(ExchangeFailure) {
            _ = try await exchange.exchange(ExchangeRequest(cycleID: "c", deviceID: "d"))
            print("somebody answers where nobody should")
        } catch {
            print("nobody there: \(error.kind.rawValue)")
        }
        await exchange.close()
    }
}
