#if AsyncHTTPClient && !canImport(Darwin)
    import AsyncHTTPClient
    public import HTTPTypes
    import NIOCore
    import NIOHTTP1
    import NIOSSL

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// HTTP over AsyncHTTPClient: the default on Linux.
    ///
    /// Its own retries, redirects and decompression are off, and it has no cookies and no cache. ``close()`` waits until all has
    /// ended; one that is let go unclosed ends by itself, unwaited for.
    public final class AsyncHTTPClientTransport: HTTPTransport {
        private let client: HTTPClient
        private let loop: LoopTasks
        private let closingLoop: any EventLoop
        private let isClosed = Locked(false)
        /// How long closing waits for what does not end at once.
        private static let closingPatience = TimeAmount.milliseconds(500)

        /// A client with a connection pool of its own.
        ///
        /// - Parameters:
        ///   - connectTimeout: for a connection to come about.
        ///   - keepAlive: how long an idle connection is kept; below the 5 s after which many servers close one, since
        ///     a request on a connection that is just being closed is lost.
        public convenience init(connectTimeout: Duration = .seconds(10), keepAlive: Duration = .seconds(4)) {
            self.init(connectTimeout: connectTimeout, keepAlive: keepAlive, tls: nil)
        }

        /// For tests of TLS with certificates of their own; there is no public way to weaken the checks.
        init(connectTimeout: Duration, keepAlive: Duration, tls: TLSConfiguration?) {
            var configuration = HTTPClient.Configuration(
                tlsConfiguration: tls, redirectConfiguration: .disallow, decompression: .disabled)
            configuration.timeout.connect = TimeAmount(connectTimeout)
            configuration.connectionPool.idleTimeout = TimeAmount(keepAlive)
            configuration.connectionPool.retryConnectionEstablishment = false
            configuration.http1_1ConnectionDebugInitializer = StatusGuard.install
            // One loop for all of it: the client puts each request's deadline on a loop of the group, and with several that is
            // often another than the connection's, a thread to wake for nothing.
            let loop = HTTPClient.defaultEventLoopGroup.any()
            self.loop = LoopTasks(loop)
            closingLoop = loop
            if Self.isNoTracer(configuration.tracing.tracer) { configuration.tracing.tracer = nil }
            client = HTTPClient(eventLoopGroupProvider: .shared(loop), configuration: configuration)
        }

        // Who could not get as far as closing it, an initializer that threw, for one, leaves nothing open either.
        deinit {
            guard !isClosed.withLock({ $0 }) else { return }
            let _: EventLoopFuture<Void> = client.shutdown()
        }

        // Where the client itself runs, so that its answer is not made ours on another thread.
        @concurrent
        public func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
            guard let scheme = request.scheme, let authority = request.authority else {
                throw HTTPFailure(.unusable, "a request needs a scheme and an authority")
            }
            var message = HTTPClientRequest(url: "\(scheme)://\(authority)\(request.path ?? "/")")
            message.method = HTTPMethod(rawValue: request.method.rawValue)
            // With room for the two that the client adds.
            message.headers.reserveCapacity(request.headerFields.count + 2)
            for field in request.headerFields where field.name != .contentLength {
                message.headers.add(name: field.name.rawName, value: field.value)
            }
            if !body.isEmpty || request.headerFields[.contentLength] != nil { message.body = .bytes(body) }
            let response: HTTPClientResponse
            do {
                response = try await withTaskExecutorPreference(loop) { [client, message] in
                    // Deadlines are the caller's, who cancels.
                    try await client.execute(message, deadline: .distantFuture)
                }
            } catch {
                throw Self.failure(error, isBeforeHead: true)
            }
            let pieces = Pieces(response.body.makeAsyncIterator())
            return HTTPAnswer(
                head: Self.head(response),
                body: HTTPBody { () async throws(HTTPFailure) -> [UInt8]? in
                    do {
                        return try await pieces.next()
                    } catch {
                        throw Self.failure(error, isBeforeHead: false)
                    }
                })
        }

        /// Ends everything, and waits until it has ended; for attempts to connect, which the client gives up by their time-out
        /// only, half a second at most.
        public func close() async {
            let wasClosed = isClosed.withLock { isClosed in
                defer { isClosed = true }
                return isClosed
            }
            guard !wasClosed else { return }
            let isOver = closingLoop.makePromise(of: Void.self)
            let closing: EventLoopFuture<Void> = client.shutdown()
            // Everything is closed all the same after an error; it only says that something was still under way. The first of
            // the two counts.
            closing.whenComplete { _ in isOver.succeed(()) }
            let patience = closingLoop.scheduleTask(in: Self.closingPatience) { isOver.succeed(()) }
            do { try await isOver.futureResult.get() } catch {
                // kept: it is never failed.
            }
            patience.cancel()
        }

        /// Without a tracer of the app's the client still takes each URL apart for one that listens to nothing.
        private static func isNoTracer(_ tracer: Any?) -> Bool {
            tracer.map { "\(type(of: $0))" == "NoOpTracer" } ?? true
        }

        private static func head(_ response: HTTPClientResponse) -> HTTPResponse {
            var fields: [HTTPField] = []
            fields.reserveCapacity(response.headers.count)
            for (name, value) in response.headers {
                guard let name = HTTPField.Name(name) else { continue }
                fields.append(HTTPField(name: name, value: value))
            }
            var head = HTTPResponse(
                status: HTTPResponse.Status(
                    code: Int(response.status.code), reasonPhrase: reason(response.status.reasonPhrase)))
            // At once: one by one each goes the long way of replacing a range.
            head.headerFields.replaceSubrange(..<head.headerFields.startIndex, with: fields)
            return head
        }

        /// The type refuses a reason with control characters.
        private static func reason(_ text: String) -> String {
            text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7f } ? text : ""
        }

        /// The pieces of a body. Sendable because ``HTTPBody`` has one reader, and asks again only after an answer.
        private final class Pieces: @unchecked Sendable {
            private var iterator: HTTPClientResponse.Body.AsyncIterator

            init(_ iterator: HTTPClientResponse.Body.AsyncIterator) { self.iterator = iterator }

            @concurrent
            func next() async throws -> [UInt8]? {
                guard let piece = try await iterator.next() else { return nil }
                return Array(buffer: piece)
            }
        }
    }

    /// The client's event loop, for tasks: what belongs to a request runs where its connection is.
    ///
    /// From any other thread the client wakes the loop up to three times for each request, to set a deadline, to send and to take
    /// the deadline back, and the loop wakes that thread with each part of an answer.
    private final class LoopTasks: TaskExecutor {
        private let loop: any EventLoop

        init(_ loop: any EventLoop) { self.loop = loop }

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }
    }

    extension AsyncHTTPClientTransport {
        /// What the client's errors mean; their texts are for people only.
        static func failure(_ error: any Error, isBeforeHead: Bool) -> HTTPFailure {
            // A failure of several addresses at once tells of each of them.
            let message = String("\(error)".prefix(200))
            switch error {
            case let failure as HTTPFailure: return failure
            case is CancellationError: return HTTPFailure(.cancelled, "cancelled")
            case let error as HTTPClientError: return HTTPFailure(kind(error), message)
            case NIOSSLError.uncleanShutdown: return HTTPFailure(.interrupted, message)
            case is NIOSSLError, is BoringSSLError, is NIOSSLExtraError:
                return HTTPFailure(isBeforeHead ? .secureConnection : .interrupted, message)
            case let error as HTTPParserError:
                return HTTPFailure(error == .invalidEOFState ? .interrupted : .unusable, message)
            case let error as IOError:
                let isReset = [ECONNRESET, EPIPE, ECONNABORTED].contains(error.errnoCode)
                return HTTPFailure(isReset || !isBeforeHead ? .interrupted : .noConnection, message)
            case ChannelError.connectTimeout: return HTTPFailure(.noConnection, message)
            case is ChannelError: return HTTPFailure(.interrupted, message)
            default: return HTTPFailure(isBeforeHead ? .noConnection : .interrupted, message)
            }
        }

        private static func kind(_ error: HTTPClientError) -> HTTPFailure.Kind {
            switch error {
            case .cancelled, .requestStreamCancelled: .cancelled
            case .alreadyShutdown: .closed
            case .connectTimeout, .getConnectionFromPoolTimeout, .socksHandshakeTimeout, .httpProxyHandshakeTimeout:
                .noConnection
            case .tlsHandshakeTimeout: .noConnection
            case .readTimeout, .writeTimeout, .deadlineExceeded: .timedOut
            case .remoteConnectionClosed, .uncleanShutdown: .interrupted
            default: .unusable
            }
        }
    }

    extension TimeAmount {
        fileprivate init(_ duration: Duration) {
            let parts = duration.components
            self = .nanoseconds(parts.seconds * 1_000_000_000 + parts.attoseconds / 1_000_000_000)
        }
    }
#endif
