#if canImport(Darwin)
    import Foundation
    public import HTTPTypes

    /// HTTP over URLSession: the default on Apple's platforms.
    ///
    /// Redirects, cookies, caches and credential stores are off. It must be closed (``close()``) before it is let go:
    /// a session keeps its delegate alive until then.
    public final class URLSessionTransport: HTTPTransport {
        private let session: URLSession
        private let tasks = SessionTasks()

        /// A client with a session of its own.
        ///
        /// - Parameter connectTimeout: for the first bytes to come; URLSession knows no time-out for the connection alone.
        public init(connectTimeout: Duration = .seconds(60)) {
            let configuration = URLSessionConfiguration.ephemeral
            configuration.urlCache = nil
            configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
            configuration.httpCookieStorage = nil
            configuration.httpShouldSetCookies = false
            configuration.httpCookieAcceptPolicy = .never
            configuration.urlCredentialStorage = nil
            configuration.waitsForConnectivity = false
            // It counts in whole seconds, and 0 would end every request at once.
            configuration.timeoutIntervalForRequest = Double(max(connectTimeout.components.seconds, 1))
            session = URLSession(configuration: configuration, delegate: tasks, delegateQueue: nil)
        }

        public func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
            guard let scheme = request.scheme, let authority = request.authority,
                let url = URL(string: "\(scheme)://\(authority)\(request.path ?? "/")")
            else { throw HTTPFailure(.unusable, "a request needs a scheme, an authority and a valid path") }
            var message = URLRequest(url: url)
            message.httpMethod = request.method.rawValue
            for field in request.headerFields where field.name != .contentLength {
                message.addValue(field.value, forHTTPHeaderField: field.name.rawName)
            }
            if !body.isEmpty { message.httpBody = Data(body) }
            let inbox = SessionInbox()
            guard let task = tasks.start(message, in: session, inbox) else {
                throw HTTPFailure(.closed, "the client is closed")
            }
            inbox.attach(
                .init(drop: { task.cancel() }, pause: { task.suspend() }, goOn: { task.resume() }))
            let response = try await withTaskCancellationHandler {
                await inbox.head()
            } onCancel: {
                task.cancel()
            }.get()
            var head = HTTPResponse(status: HTTPResponse.Status(code: response.statusCode))
            for (name, value) in response.allHeaderFields {
                guard let name = (name as? String).flatMap({ HTTPField.Name($0) }), let value = value as? String else {
                    continue
                }
                // URLSession inflates by itself and says nothing of it: what comes is plain, and of another length.
                if name == .contentEncoding || name == .contentLength { continue }
                head.headerFields.append(HTTPField(name: name, value: value))
            }
            return HTTPAnswer(
                head: head,
                body: HTTPBody { () async throws(HTTPFailure) -> [UInt8]? in
                    try await withTaskCancellationHandler {
                        await inbox.piece()
                    } onCancel: {
                        task.cancel()
                    }.get()
                })
        }

        public func close() async {
            tasks.close()
            session.invalidateAndCancel()
        }
    }
#endif
