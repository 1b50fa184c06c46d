import DownloadQueue
import SyncCore

@main struct Consumer {
    static func main() {
        let end = DownloadQueue.DrainEnd.empty
        print("a wish for \(DownloadRequest(scope: "board:1", priority: 5).scope), drained: \(end)")
    }
}
