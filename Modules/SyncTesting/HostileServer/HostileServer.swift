import Foundation

/// A server on this machine that misbehaves on command, byte by byte: for the tests of HTTP clients and of what stands
/// behind them.
///
/// Each request, over all connections in the order in which they come, takes the next script; the last one serves all
/// that come after. After a script that does not end its connection, the connection takes the next request. The port is
/// the system's choice. ``stop()`` ends every connection and waits for the threads; it must be called.
///
/// ```swift
/// let server = try HostileServer([.silent, .portal, .answer(#"{"ok":true}"#)])
/// defer { server.stop() }
/// let client = Client(server.url)
/// ```
public final class HostileServer: @unchecked Sendable {
    // Sendable: everything that changes is read and written under `condition` alone.

    /// Why there is no server.
    public struct Failure: Error {
        public var call: String
        public var code: Int32
    }

    /// Where it listens, on the loopback address.
    public let port: UInt16
    private let listener: Int32
    private let scripts: [HostileScript]
    private let condition = NSCondition()
    private var served = 0
    private var received: [HostileRequest] = []
    private var connections: Set<Int32> = []
    private var accepted = 0
    private var threads = 1
    private var isStopped = false
    private var waiters: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []

    /// Starts a server with these scripts, at least one.
    public init(_ scripts: [HostileScript]) throws {
        precondition(!scripts.isEmpty, "a hostile server needs a script")
        self.scripts = scripts
        (listener, port) = try HostileSocket.listen()
        Thread.detachNewThread { [self] in accept() }  // live: it serves real sockets
    }

    /// `http://127.0.0.1:PORT`
    public var url: String { "http://127.0.0.1:\(port)" }

    /// The requests so far, in the order in which they were read.
    public var requests: [HostileRequest] { condition.withLock { received } }

    /// How many connections were taken so far.
    public var connectionCount: Int { condition.withLock { accepted } }

    /// Waits until so many requests have been read.
    public func waitForRequests(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = condition.withLock {
                if received.count >= count { return true }
                waiters.append((count, continuation))
                return false
            }
            if isThere { continuation.resume() }
        }
    }

    /// Ends every connection, and waits until all threads are gone.
    public func stop() {
        condition.lock()
        let wasStopped = isStopped
        isStopped = true
        if !wasStopped {
            HostileSocket.end(listener)
            HostileSocket.knock(port)
            for connection in connections { HostileSocket.end(connection) }  // any order
        }
        condition.broadcast()
        while threads > 0 { condition.wait() }
        let left = waiters
        waiters = []
        condition.unlock()
        for waiter in left { waiter.continuation.resume() }
    }

    /// A port on which nobody listens.
    public static func closedPort() throws -> UInt16 {
        let (socket, port) = try HostileSocket.listen()
        HostileSocket.close(socket)
        return port
    }

    private func accept() {
        while let socket = HostileSocket.accept(listener) {
            let isWelcome = condition.withLock {
                if isStopped { return false }
                connections.insert(socket)
                accepted += 1
                threads += 1
                return true
            }
            guard isWelcome else {
                HostileSocket.close(socket)
                break
            }
            Thread.detachNewThread { [self] in serve(socket) }  // live: it serves real sockets
        }
        HostileSocket.close(listener)
        finishThread()
    }

    private func serve(_ socket: Int32) {
        var isOpen = true
        var buffer: [UInt8] = []
        while isOpen, !condition.withLock({ isStopped }) {
            // The next script is taken once the request is there, or at once if it wants none.
            if nextScript.readsRequest {
                guard let request = HostileSocket.readRequest(socket, &buffer) else { break }
                let script = takeScript()
                record(request)
                isOpen = perform(script.acts, socket, request)
            } else {
                isOpen = perform(takeScript().acts, socket, nil)
            }
        }
        condition.withLock { _ = connections.remove(socket) }
        HostileSocket.close(socket)
        finishThread()
    }

    private func finishThread() {
        condition.withLock {
            threads -= 1
            condition.broadcast()
        }
    }

    private var nextScript: HostileScript { condition.withLock { scripts[min(served, scripts.count - 1)] } }

    private func takeScript() -> HostileScript {
        condition.withLock {
            defer { served += 1 }
            return scripts[min(served, scripts.count - 1)]
        }
    }

    private func record(_ request: HostileRequest) {
        let ready = condition.withLock {
            received.append(request)
            let ready = waiters.filter { $0.count <= received.count }
            waiters.removeAll { $0.count <= received.count }
            return ready
        }
        for waiter in ready { waiter.continuation.resume() }
    }

    /// Returns whether the connection can take another request.
    private func perform(_ acts: [HostileAct], _ socket: Int32, _ request: HostileRequest?) -> Bool {
        for act in acts {
            switch act {
            case .send(let bytes):
                guard HostileSocket.write(socket, bytes) else { return false }
            case .answer(let make):
                guard let request, HostileSocket.write(socket, make(request)) else { return false }
            case .flood(let bytes, let times):
                for _ in 0..<times {
                    guard HostileSocket.write(socket, bytes) else { return false }
                }
            case .drip(let bytes, let pause):
                for byte in bytes {
                    guard wait(pause), HostileSocket.write(socket, [byte]) else { return false }
                }
            case .silence:
                HostileSocket.readToEnd(socket)
                return false
            case .close: return false
            case .reset:
                HostileSocket.makeReset(socket)
                return false
            }
        }
        return true
    }

    /// Waits on this server's own thread; `false` if it was stopped meanwhile.
    private func wait(_ pause: Duration) -> Bool {
        let seconds = Double(pause.components.seconds) + Double(pause.components.attoseconds) * 1e-18
        let end = Date(timeIntervalSinceNow: seconds)  // live: it serves real sockets
        condition.lock()
        defer { condition.unlock() }
        while !isStopped, condition.wait(until: end) {}
        return !isStopped
    }
}
