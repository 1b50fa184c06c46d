import Foundation

/// Where the reference server's process dies, and what it leaves behind.
///
/// A kill takes a picture of its files at that very statement, as a process that dies leaves them: what was committed is in
/// the log, what was not is nowhere. What the doomed request still does goes into files that are thrown away.
final class ServerLife: @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor.

    /// How it died last.
    enum Death {
        case atStatement
        /// What was done is in the file, and nobody heard of it.
        case afterCommit
    }

    private let folder: DeviceFolder
    /// Statements at which it dies, and requests after whose commit it does.
    var statementCrashes: Set<Int> = []
    var requestCrashes: Set<Int> = []
    private(set) var statements = 0
    private(set) var requests = 0
    /// The simulator itself asks: nothing of that counts.
    var isLookedAt = false
    private var death: (kind: Death, picture: [String: Data])?
    /// A planted mistake: what it commits last is not on the disk. The files before this request, and before the one before.
    private let forgetsLastCommit: Bool
    private var before: (last: [String: Data], present: [String: Data]) = ([:], [:])

    struct Killed: Error {}

    init(folder: DeviceFolder, forgetsLastCommit: Bool) {
        self.folder = folder
        self.forgetsLastCommit = forgetsLastCommit
    }

    /// Called before each statement of its storage.
    func statement() throws {
        guard !isLookedAt else { return }
        guard death == nil else { throw Killed() }
        statements += 1
        guard statementCrashes.remove(statements) != nil else { return }
        death = (.atStatement, try picture())
        throw Killed()
    }

    /// A request came in.
    func begins() throws {
        requests += 1
        if forgetsLastCommit { before = (before.present, try folder.photograph()) }
    }

    /// A request is done, and its answer is about to leave.
    /// - Returns: how it died over the request, and the files that it left; `nil` if it lives.
    func ends() throws -> (kind: Death, picture: [String: Data])? {
        if death == nil, requestCrashes.remove(requests) != nil { death = (.afterCommit, try picture()) }
        defer { death = nil }
        return death
    }

    private func picture() throws -> [String: Data] {
        forgetsLastCommit && !before.last.isEmpty ? before.last : try folder.photograph()
    }
}
