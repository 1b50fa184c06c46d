internal import Logging
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// The tokens that count now: read at the start, and again every few seconds.
///
/// The file is read by its path each time, so that a change in place and a replacement by rename are both seen. A file
/// that is missing for a moment, or cannot be read, leaves the tokens as they were, with a warning.
final class TokenBook: Sendable {
    /// The account of everybody, where there is no tokens file.
    static let openAccount = "open"

    private struct State: Sendable {
        var table: TokenTable?
        var text: [UInt8] = []
        var isMissing = false
    }

    let path: String?
    private let state: NIOLockedValueBox<State>

    /// An open server's book: one account for everybody.
    init() {
        path = nil
        state = NIOLockedValueBox(State())
    }

    /// The book of a file, which must be readable.
    init(path: String) throws(ServeFailure) {
        self.path = path
        guard let bytes = Self.read(path) else { throw .unreadableTokens(path: path) }
        state = NIOLockedValueBox(State(table: TokenTable(String(decoding: bytes, as: UTF8.self)), text: bytes))
    }

    /// The account of an `Authorization` header field's value; nil where it names none.
    func account(authorization: String?) -> String? {
        state.withLockedValue { state in
            guard let table = state.table else { return Self.openAccount }
            guard let token = Self.bearer(authorization) else { return nil }
            return table.account(of: token.utf8)
        }
    }

    var count: Int? { state.withLockedValue { $0.table?.count } }
    var strangeLines: [Int] { state.withLockedValue { $0.table?.strangeLines ?? [] } }

    /// The token of `Bearer TOKEN`; the word counts in any case of letters.
    static func bearer(_ authorization: String?) -> Substring? {
        guard let words = authorization?.split(separator: " ", omittingEmptySubsequences: true), words.count == 2,
            words[0].lowercased() == "bearer"
        else { return nil }
        return words[1]
    }

    /// Looks at the file again; whether anything changed.
    func refresh(logger: Logger) -> Bool {
        guard let path else { return false }
        let bytes = Self.read(path)
        return state.withLockedValue { state in
            guard let bytes else {
                if !state.isMissing { logger.warning("the tokens file cannot be read; the known tokens go on") }
                state.isMissing = true
                return false
            }
            state.isMissing = false
            guard bytes != state.text else { return false }
            let table = TokenTable(String(decoding: bytes, as: UTF8.self))
            state.table = table
            state.text = bytes
            logger.notice("the tokens file was read again", metadata: ["tokens": "\(table.count)"])
            if !table.strangeLines.isEmpty {
                logger.warning("lines of the tokens file are skipped", metadata: ["lines": "\(table.strangeLines)"])
            }
            return true
        }
    }

    private static func read(_ path: String) -> [UInt8]? {
        FileManager.default.contents(atPath: path).map { Array($0) }
    }
}

/// Looks at the tokens file every few seconds, until the server stops.
struct TokenWatch: Service {
    let book: TokenBook
    let interval: Double
    let logger: Logger
    let changed: @Sendable () -> Void

    func run() async throws {
        guard book.path != nil else {
            try await gracefulShutdown()
            return
        }
        try? await cancelWhenGracefulShutdown {
            while true {
                try await Task.sleep(for: .seconds(interval))
                let hasChanged = try await NIOThreadPool.singleton.runIfActive { book.refresh(logger: logger) }
                if hasChanged { changed() }
            }
        }
    }
}
