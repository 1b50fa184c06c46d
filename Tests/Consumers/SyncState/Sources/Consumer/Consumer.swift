import SyncState

@main struct Consumer {
    static func main() {
        print("one failure and one waiting change: \(RecordState(.init(failed: 1, waiting: 1)).rawValue)")
    }
}
