import SyncCore
import UploadQueue

@main struct Consumer {
    static func main() {
        let kind = FailureTable().classify(status: 503, on: .exchange)
        print("503 is \(kind.map(\.rawValue) ?? "no failure"), and \(UploadPolicy().maxAttempts) attempts are made")
    }
}
