import Ferry
import Foundation
import SyncCore

/// Tells what happens in a queue, in words.
actor Narrator {
    private let queue: UploadQueue
    private var names: [String: String] = [:]
    private var left: Set<String> = []

    init(_ queue: UploadQueue) { self.queue = queue }

    /// Tells each event until the task is cancelled.
    func tell(_ events: AsyncStream<UploadEvent>) async throws {
        for await event in events {
            if let words = try await words(for: event) { print("  \(words)") }
        }
    }

    private func words(for event: UploadEvent) async throws -> String? {
        switch event {
        case .sent(let keys):
            let again = keys.allSatisfy { !left.insert($0).inserted }
            return "-> \(try await name(keys[0])) leaves" + (again ? " again, under the same key" : "")
        case .acknowledged: return "   done, says the server"
        case .retrying(let time, let cause):
            let seconds = Double(time - SystemWallClock().nowMilliseconds) / 1_000
            let what =
                cause.hasPrefix(FailureClass.network.rawValue)
                ? "no answer: the connection broke, and nobody here knows whether it was done"
                : "the server could not do it now (\(cause))"
            return "   \(what); next attempt in \(String(format: "%.1f", max(0, seconds))) s"
        case .setAside(let key, let reason):
            return "   \(try await name(key)) is set aside: \(reason.message) The queue goes on"
        case .blocked(let key, let by):
            return "   \(try await name(key)) needs \(try await name(by)), and waits for it"
        case .conflicted:
            return "   somebody else changed it meanwhile: the field's rule merges both, and that goes in its place"
        case .authenticationNeeded: return "   the server wants other credentials"
        default: return nil
        }
    }

    /// `create note groceries`, by the change's key.
    private func name(_ key: String) async throws -> String {
        if let name = names[key] { return name }
        for queued in try await queue.queued() + queue.failures().map(\.queued) {
            names[queued.change.id] = Self.name(queued.change)
        }
        return names[key] ?? "a change"
    }

    static func name(_ change: Change) -> String { "\(change.operation.rawValue) \(change.record)" }
}
