#if canImport(Network)
    import Dispatch
    import Network

    /// The platform's word on how the device is connected, by `NWPathMonitor`.
    public struct SystemConnectivity: Connectivity {
        public init() {}

        public func paths() -> AsyncStream<NetworkPath> {
            let (stream, continuation) = AsyncStream.makeStream(
                of: NetworkPath.self, bufferingPolicy: .bufferingNewest(1))
            let monitor = NWPathMonitor()
            monitor.pathUpdateHandler = { path in continuation.yield(NetworkPath(path)) }
            continuation.onTermination = { _ in monitor.cancel() }
            monitor.start(queue: DispatchQueue(label: "connectivity"))  // live
            return stream
        }
    }

    extension NetworkPath {
        init(_ path: NWPath) {
            self.init(
                // A connection that is made on demand (a VPN) counts: asking for it brings it.
                isReachable: path.status != .unsatisfied, isMetered: path.isExpensive, isLowData: path.isConstrained,
                link: path.availableInterfaces.first?.name ?? "")
        }
    }
#else
    import Foundation

    /// Whether this machine has a route to anywhere, looked up in the kernel's tables now and then.
    ///
    /// Linux has no word of its own for what a link costs: it is never told to be metered.
    public struct SystemConnectivity: Connectivity {
        private let clock: any Clock<Duration>
        private let pause: Duration
        private let look: @Sendable () -> NetworkPath

        /// - Parameters:
        ///   - pause: the time between two looks.
        ///   - look: what the machine says; by default `/proc/net/route` and `/proc/net/ipv6_route`.
        public init(
            every pause: Duration = .seconds(5),
            clock: any Clock<Duration> = ContinuousClock(),  // live
            look: @escaping @Sendable () -> NetworkPath = { Routes.present() }
        ) {
            self.pause = pause
            self.clock = clock
            self.look = look
        }

        public func paths() -> AsyncStream<NetworkPath> {
            let (clock, pause, look) = (clock, pause, look)
            let last = LastPath()
            // Pulled by who listens: nothing runs, and nothing is left, when nobody does.
            return AsyncStream {
                while !Task.isCancelled {
                    let path = look()
                    if last.isNew(path) { return path }
                    do { try await clock.sleep(for: pause) } catch { return nil }  // kept: only a cancellation
                }
                return nil
            }
        }
    }

    /// The path that a stream told last.
    private final class LastPath: @unchecked Sendable {
        // Sendable: `path` is used under `lock` alone.
        private let lock = NSLock()
        private var path: NetworkPath?

        func isNew(_ next: NetworkPath) -> Bool {
            lock.withLock {
                defer { path = next }
                return path != next
            }
        }
    }

    /// The kernel's routes, as text.
    public enum Routes {
        /// What they say now; a machine that does not tell is taken to be connected.
        public static func present() -> NetworkPath {
            guard let four = FileManager.default.contents(atPath: "/proc/net/route") else {
                return NetworkPath(isReachable: true)
            }
            let six = FileManager.default.contents(atPath: "/proc/net/ipv6_route") ?? Data()
            return path(four: String(decoding: four, as: UTF8.self), six: String(decoding: six, as: UTF8.self))
        }

        /// Reachable by a route to everywhere (destination and mask 0) over anything but the loopback.
        static func path(four: String, six: String) -> NetworkPath {
            for line in four.split(separator: "\n").dropFirst() {
                let words = line.split(whereSeparator: \.isWhitespace)
                if words.count > 7, words[1] == "00000000", words[7] == "00000000" {
                    return NetworkPath(isReachable: true, link: String(words[0]))
                }
            }
            for line in six.split(separator: "\n") {
                let words = line.split(whereSeparator: \.isWhitespace)
                if words.count > 9, words[1] == "00", words[0].allSatisfy({ $0 == "0" }), words[9] != "lo" {
                    return NetworkPath(isReachable: true, link: String(words[9]))
                }
            }
            return NetworkPath(isReachable: false)
        }
    }
#endif
