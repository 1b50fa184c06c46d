#if AsyncHTTPClient && !canImport(Darwin)
    import Foundation
    import NIOCore
    import NIOPosix
    import NIOSSL
    import SyncCore
    import SyncTesting
    import Testing

    @testable import Transport

    /// TLS with certificates that are made on the fly, against a server that answers well behind every one of them.
    struct TLSTests {
        private static let forever = ("20000101000000Z", "20991231000000Z")

        /// What an exchange over a certificate comes to, and how many requests the server read.
        private func attempt(
            host: String = "localhost", named name: String = "localhost", from: String = forever.0,
            to: String = forever.1, isTrusted: Bool = true
        ) async throws -> (failure: ExchangeFailure?, requests: Int) {
            let authority = try CertificateAuthority()
            let server = try await TLSServer(
                try authority.issue(name: name, from: from, to: to), answer: Sample.answer())
            var tls: TLSConfiguration?
            if isTrusted {
                tls = .makeClientConfiguration()
                tls?.trustRoots = .file(authority.certificate)
            }
            let http = AsyncHTTPClientTransport(connectTimeout: .seconds(10), keepAlive: .seconds(1), tls: tls)
            let exchange = try Sample.exchange(
                http, credentials: FixedCredentials(Token(value: "secret")), endpoint: "https://\(host):\(server.port)")
            var failure: ExchangeFailure?
            do throws(ExchangeFailure) {
                _ = try await exchange.exchange(Sample.request([Sample.change(1)]))
            } catch { failure = error }
            await exchange.close()
            await server.stop()
            return (failure, server.requests)
        }

        @Test("NET-21 with a certificate that is believed the exchange works, and its answer counts")
        func believed() async throws {
            let (failure, requests) = try await attempt()
            #expect(failure == nil)
            #expect(requests == 1)
        }

        @Test(
            "NET-21 untrusted, expired, wrong host, not yet valid: shown as such, nothing was sent, no fallback to http",
            arguments: ["untrusted", "expired", "wrong host", "not yet valid"])
        func refused(_ fault: String) async throws {
            let (failure, requests) =
                switch fault {
                case "untrusted": try await attempt(isTrusted: false)
                case "expired": try await attempt(to: "20200101000000Z")
                case "wrong host": try await attempt(named: "other.example.com")
                default: try await attempt(from: "20900101000000Z")
                }
            #expect(failure?.kind == .network)
            #expect(failure?.isSecureConnectionFailure == true)
            #expect(failure?.reachedServer == false)
            #expect(failure?.isCancelled == false)
            #expect(requests == 0)
        }
    }

    /// An authority of a test's own, with openssl, in a folder that goes with it.
    private final class CertificateAuthority {
        struct Failure: Error { var message: String }

        private let folder: URL
        var certificate: String { path("authority.pem") }

        init() throws {
            folder = FileManager.default.temporaryDirectory.appendingPathComponent("tls-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try openssl(
                ["req", "-x509", "-nodes", "-keyout", "authority.key", "-out", "authority.pem", "-days", "3650"]
                    + Self.newKey + ["-subj", "/CN=Authority of a test"])
        }

        deinit {
            do { try FileManager.default.removeItem(at: folder) } catch { Issue.record(error) }
        }

        private static let newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]

        /// A certificate for the host `name`, valid in that time (`20200101000000Z`), and its key.
        func issue(name: String, from: String, to: String) throws -> (certificate: String, key: String) {
            let configuration = """
                [ca]
                default_ca = authority
                [authority]
                database = index.txt
                serial = serial
                new_certs_dir = .
                certificate = authority.pem
                private_key = authority.key
                default_md = sha256
                policy = names
                [names]
                commonName = supplied
                [server]
                subjectAltName = DNS:\(name)
                """
            try Data(configuration.utf8).write(to: folder.appendingPathComponent("authority.cnf"))
            try Data().write(to: folder.appendingPathComponent("index.txt"))
            try Data("01\n".utf8).write(to: folder.appendingPathComponent("serial"))
            try openssl(
                ["req", "-nodes", "-keyout", "server.key", "-out", "server.csr"] + Self.newKey
                    + ["-subj", "/CN=Server of a test"])
            try openssl([
                "ca", "-batch", "-notext", "-config", "authority.cnf", "-extensions", "server", "-in", "server.csr",
                "-out", "server.pem", "-startdate", from, "-enddate", to,
            ])
            return (path("server.pem"), path("server.key"))
        }

        private func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

        private func openssl(_ arguments: [String]) throws {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = ["openssl"] + arguments
            process.currentDirectoryURL = folder
            let errors = Pipe()
            process.standardError = errors
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            let said = errors.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            guard process.terminationStatus == 0 else {
                throw Failure(message: "openssl \(arguments[0]): \(String(decoding: said, as: UTF8.self))")
            }
        }
    }

    /// Answers every request over TLS with the same, and ends the connection.
    private final class TLSServer: Sendable {
        private let channel: any Channel
        private let count = Locked(0)

        init(_ identity: (certificate: String, key: String), answer: String) async throws {
            let chain = try NIOSSLCertificate.fromPEMFile(identity.certificate).map {
                NIOSSLCertificateSource.certificate($0)
            }
            let key = try NIOSSLPrivateKey(file: identity.key, format: .pem)
            let context = try NIOSSLContext(
                configuration: .makeServerConfiguration(certificateChain: chain, privateKey: .privateKey(key)))
            let bytes =
                HostileScript.head(
                    200, "application/json", ["Content-Length: \(answer.utf8.count)", "Connection: close"])
                + Array(answer.utf8)
            let count = count
            channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandlers(
                            NIOSSLServerHandler(context: context), Answering(bytes, count))
                    }
                }
                .bind(host: "127.0.0.1", port: 0).get()
        }

        var port: Int { channel.localAddress?.port ?? 0 }
        var requests: Int { count.withLock { $0 } }

        func stop() async {
            do { try await channel.close() } catch { Issue.record(error) }
        }

        /// Takes everything until the body's end, and answers it once.
        private final class Answering: ChannelInboundHandler {
            typealias InboundIn = ByteBuffer
            typealias OutboundOut = ByteBuffer

            private let answer: [UInt8]
            private let count: Locked<Int>
            private var received = ""

            init(_ answer: [UInt8], _ count: Locked<Int>) {
                self.answer = answer
                self.count = count
            }

            func channelRead(context: ChannelHandlerContext, data: NIOAny) {
                received += String(buffer: unwrapInboundIn(data))
                guard received.contains("\r\n\r\n"), received.hasSuffix("]}") else { return }
                count.withLock { $0 += 1 }
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: answer)), promise: nil)
                context.close(promise: nil)
            }

            func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
        }
    }
#endif
