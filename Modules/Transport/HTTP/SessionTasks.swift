#if canImport(Darwin)
    import Foundation

    /// What one task of a session has brought and who waits for it.
    ///
    /// Sendable because all of its state is behind one lock.
    final class SessionInbox: Sendable {
        private struct State: Sendable {
            var head: HTTPURLResponse?
            var pieces: [[UInt8]] = []
            /// The bytes of `pieces`, and whether the task waits until they are fewer.
            var kept = 0
            var isPaused = false
            var end: Result<Void, HTTPFailure>?
            var headWaiter: CheckedContinuation<Result<HTTPURLResponse, HTTPFailure>, Never>?
            var pieceWaiter: CheckedContinuation<Result<[UInt8]?, HTTPFailure>, Never>?
            var control: Control?
        }

        /// What the inbox may do to its task.
        struct Control: Sendable {
            /// Frees the connection if the answer is let go before its end.
            var drop: @Sendable () -> Void
            /// URLSession brings as fast as the network, whoever reads; so who reads slowly stops it.
            var pause: @Sendable () -> Void
            var goOn: @Sendable () -> Void
        }

        /// More than this does not wait here.
        private static let most = 1 << 20

        private let state = Locked(State())

        deinit { state.withLock { $0.control }?.drop() }

        /// The task that brings the answer; none once it has ended.
        func attach(_ control: Control) {
            let isPaused = state.withLock { state -> Bool in
                guard state.end == nil else { return false }
                state.control = control
                // What came before may have been much already.
                return state.isPaused
            }
            if isPaused { control.pause() }
        }

        func head() async -> Result<HTTPURLResponse, HTTPFailure> {
            await withCheckedContinuation { continuation in
                let ready: Result<HTTPURLResponse, HTTPFailure>? = state.withLock { state in
                    if let head = state.head { return .success(head) }
                    if case .failure(let failure)? = state.end { return .failure(failure) }
                    state.headWaiter = continuation
                    return nil
                }
                if let ready { continuation.resume(returning: ready) }
            }
        }

        func piece() async -> Result<[UInt8]?, HTTPFailure> {
            await withCheckedContinuation { continuation in
                let (ready, goOn) = state.withLock { state -> (Result<[UInt8]?, HTTPFailure>?, Control?) in
                    if !state.pieces.isEmpty {
                        let piece = state.pieces.removeFirst()
                        state.kept -= piece.count
                        let goesOn = state.isPaused && state.kept < Self.most / 2
                        if goesOn { state.isPaused = false }
                        return (.success(piece), goesOn ? state.control : nil)
                    }
                    if let end = state.end { return (end.map { nil }, nil) }
                    state.pieceWaiter = continuation
                    return (nil, nil)
                }
                goOn?.goOn()
                if let ready { continuation.resume(returning: ready) }
            }
        }

        func take(_ head: HTTPURLResponse) {
            let waiter = state.withLock { state in
                state.head = head
                defer { state.headWaiter = nil }
                return state.headWaiter
            }
            waiter?.resume(returning: .success(head))
        }

        func take(_ piece: [UInt8]) {
            let (waiter, pause) = state.withLock { state in
                if state.pieceWaiter == nil {
                    state.pieces.append(piece)
                    state.kept += piece.count
                }
                let isMuch = !state.isPaused && state.kept > Self.most
                if isMuch { state.isPaused = true }
                defer { state.pieceWaiter = nil }
                return (state.pieceWaiter, isMuch ? state.control : nil)
            }
            pause?.pause()
            waiter?.resume(returning: .success(piece))
        }

        func finish(_ result: Result<Void, HTTPFailure>) {
            let (head, piece) = state.withLock { state in
                state.end = result
                state.control = nil
                defer { (state.headWaiter, state.pieceWaiter) = (nil, nil) }
                return (state.headWaiter, state.pieceWaiter)
            }
            let none = HTTPFailure(.interrupted, "the task ended without an answer")
            head?.resume(returning: result.flatMap { .failure(none) })
            piece?.resume(returning: result.map { nil })
        }
    }

    /// The session's delegate: hands what comes to the inbox of its task.
    final class SessionTasks: NSObject, URLSessionDataDelegate, Sendable {
        private struct Weak: Sendable { weak let inbox: SessionInbox? }
        private let inboxes = Locked<[Int: Weak]?>([:])

        /// Starts a task, unless the session is closed.
        func start(_ request: URLRequest, in session: URLSession, _ inbox: SessionInbox) -> URLSessionDataTask? {
            inboxes.withLock { inboxes in
                guard inboxes != nil else { return nil }
                let task = session.dataTask(with: request)
                inboxes?[task.taskIdentifier] = Weak(inbox: inbox)
                task.resume()
                return task
            }
        }

        func close() { inboxes.withLock { $0 = nil } }

        private func inbox(of task: URLSessionTask) -> SessionInbox? {
            inboxes.withLock { $0?[task.taskIdentifier]?.inbox }
        }

        func urlSession(
            _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
            completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
        ) {
            if let head = response as? HTTPURLResponse { inbox(of: dataTask)?.take(head) }
            completionHandler(.allow)
        }

        func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
            inbox(of: dataTask)?.take([UInt8](data))
        }

        func urlSession(
            _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
            newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
        ) {
            completionHandler(nil)
        }

        func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
            let inbox = inboxes.withLock { $0?.removeValue(forKey: task.taskIdentifier)?.inbox }
            inbox?.finish(error.map { .failure(Self.failure($0)) } ?? .success(()))
        }

        /// What URLSession's errors mean.
        static func failure(_ error: any Error) -> HTTPFailure {
            let message = "\(type(of: error)) \((error as NSError).code)"
            guard let code = (error as? URLError)?.code else { return HTTPFailure(.interrupted, message) }
            let kind: HTTPFailure.Kind =
                switch code {
                case .cancelled: .cancelled
                case .timedOut: .timedOut
                case .networkConnectionLost, .cannotParseResponse, .badServerResponse: .interrupted
                case .secureConnectionFailed, .serverCertificateUntrusted, .serverCertificateHasBadDate,
                    .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid, .clientCertificateRejected,
                    .clientCertificateRequired, .appTransportSecurityRequiresSecureConnection:
                    .secureConnection
                default: .noConnection
                }
            return HTTPFailure(kind, message)
        }
    }
#endif
