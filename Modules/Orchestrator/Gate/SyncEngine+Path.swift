import SyncCore
import UploadQueue

/// The platform's word on the link: followed while ``run()`` runs, asked for where a lane's conditions go by it and
/// nobody follows it.
extension SyncEngine {
    /// Follows the platform's word until the task is cancelled. After a stop what it said last stays (decision 464); where the
    /// platform itself stops telling, nothing is known.
    func follow(_ connectivity: any Connectivity) async {
        pathFollowing = .awaited
        for await path in connectivity.paths() {
            pathFollowing = .told
            await noticed(path)
        }
        pathFollowing = .none
        guard Task.isCancelled else { return await noticed(nil) }
        gate.leftPath()
    }

    /// Before a lane's conditions are looked at: what the platform says now, where they go by it and nobody follows it, or it
    /// has said nothing yet to who does. It is waited for no longer than ``EngineConfiguration/longestPathWait``, and in a run once.
    func learnPath(for lane: SyncGate.Lane) async {
        guard let connectivity, pathFollowing != .told, gate.needsPath(lane, at: moment) else { return }
        let path = await firstPath(of: connectivity)
        guard !Task.isCancelled else { return }
        // Who follows has heard it, or a newer one, meanwhile.
        guard pathFollowing != .told else { return }
        if pathFollowing == .awaited { pathFollowing = .told }
        guard let path else { return }
        let isSame = gate.path == path
        // Whoever asks goes on by it: no cycle beside that one is worth while.
        if gate.noticed(path, at: moment) { gate.invite(at: moment) }
        if !isSame { await queue.wake() }
    }

    /// What a stream of paths begins with; `nil` if it says nothing in time.
    private func firstPath(of connectivity: any Connectivity) async -> NetworkPath? {
        await withTaskGroup(of: NetworkPath?.self) { group in
            group.addTask {
                for await path in connectivity.paths() { return path }
                return nil
            }
            group.addTask { [limit = configuration.longestPathWait] in
                _ = await self.slept(limit)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
    }
}

/// What is known of the platform's stream of paths.
enum PathFollowing: Sendable {
    /// Nobody listens to it.
    case none
    /// It is listened to, and has said nothing yet.
    case awaited
    /// It has spoken, or was waited for in vain: what it says next is heard.
    case told
}
