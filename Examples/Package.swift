// swift-tools-version: 6.2
import PackageDescription

let core: Target.Dependency = .product(name: "SyncCore", package: "Ferry")
let syncServer: Target.Dependency = .product(name: "SyncServer", package: "Ferry")
let syncTesting: Target.Dependency = .product(name: "SyncTesting", package: "Ferry")
let storage: Target.Dependency = .product(name: "Storage", package: "Ferry")
let ferry: Target.Dependency = .product(name: "Ferry", package: "Ferry")
let sqlite: Target.Dependency = .product(name: "GRDB", package: "GRDB.swift")
let log: Target.Dependency = .product(name: "Logging", package: "swift-log")
let arguments: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")
let hummingbird: Target.Dependency = .product(name: "Hummingbird", package: "hummingbird")
let hummingbirdCore: Target.Dependency = .product(name: "HummingbirdCore", package: "hummingbird")
let httpTypes: Target.Dependency = .product(name: "HTTPTypes", package: "swift-http-types")
let nio: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioHelpers: Target.Dependency = .product(name: "NIOConcurrencyHelpers", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioHTTP1: Target.Dependency = .product(name: "NIOHTTP1", package: "swift-nio")
let nioHTTPTypes: Target.Dependency = .product(name: "NIOHTTPTypes", package: "swift-nio-extras")
let nioHTTPTypesHTTP1: Target.Dependency = .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let signals: Target.Dependency = .product(name: "UnixSignals", package: "swift-service-lifecycle")
let asyncHTTPClient: Target.Dependency = .product(name: "AsyncHTTPClient", package: "async-http-client")

let package = Package(
    name: "FerryExamples",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "boards", targets: ["boards"]),
        .executable(name: "quickstart", targets: ["quickstart"]),
        .executable(name: "upload", targets: ["upload"]),
        .executable(name: "transport", targets: ["transport"]),
        .executable(name: "simulate", targets: ["simulate"]),
        .executable(name: "storage", targets: ["storage-example"]),
    ],
    dependencies: [
        .package(name: "Ferry", path: ".."),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.7.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.100.0"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.12.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
    ],
    targets: [
        // The table of what a board holds: entities, fields, references.
        .target(name: "BoardsModel", dependencies: [core], path: "Sources/BoardsModel"),

        // The reference server: HTTP around SyncServer, nothing else.
        .target(
            name: "BoardsServer",
            dependencies: [
                core, syncServer, "BoardsModel", "CServerZlib", hummingbird, hummingbirdCore, httpTypes, log, arguments,
                nio, nioPosix, nioHelpers, nioHTTP1, nioHTTPTypes, nioHTTPTypesHTTP1, lifecycle, signals,
            ],
            path: "Sources/BoardsServer"),
        .systemLibrary(
            name: "CServerZlib", path: "Sources/CServerZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),

        // The program: a Kanban board that works offline, and its server.
        .executableTarget(
            name: "boards",
            dependencies: [
                core, ferry, "BoardsModel", "BoardsServer", "CSQLiteSettings", arguments, sqlite, log, signals,
            ],
            path: "Sources/boards"),
        .systemLibrary(
            name: "CSQLiteSettings", path: "Sources/CSQLiteSettings", providers: [.apt(["libsqlite3-dev"])]),

        // The framework's bare JSON route, which the server is measured against.
        .executableTarget(name: "bareroute", dependencies: [hummingbird, log], path: "Sources/bareroute"),
        // What a list of changes becomes on the wire, without a network.
        .executableTarget(name: "transport", dependencies: [ferry, httpTypes], path: "Sources/transport"),

        // The README's program.
        .executableTarget(name: "quickstart", dependencies: [ferry, sqlite], path: "Sources/quickstart"),

        // An upload queue alone, over REST, against a server that has a bad day.
        .executableTarget(
            name: "upload", dependencies: [core, ferry, syncTesting, sqlite, log], path: "Sources/upload"),
        // An app's own entities under the simulator.
        .executableTarget(name: "simulate", dependencies: [core, syncTesting], path: "Sources/simulate"),
        // One module alone: the local database.
        .executableTarget(
            name: "storage-example", dependencies: [core, storage, sqlite], path: "Sources/storage-example"),

        .testTarget(
            name: "BoardsServerTests",
            dependencies: [
                core, syncServer, "BoardsModel", "BoardsServer", "boards", asyncHTTPClient, nio, nioPosix, nioHelpers,
                nioHTTP1, log, lifecycle,
            ],
            path: "Tests/BoardsServerTests"),
        .testTarget(
            name: "boardsTests", dependencies: [core, ferry, sqlite, log, lifecycle, "BoardsModel", "boards"],
            path: "Tests/boardsTests"),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets where target.type != .system {
    target.swiftSettings =
        (target.swiftSettings ?? []) + [
            // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0335-existential-any.md
            .enableUpcomingFeature("ExistentialAny"),
            // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0444-member-import-visibility.md
            .enableUpcomingFeature("MemberImportVisibility"),
            // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0409-access-level-on-imports.md
            .enableUpcomingFeature("InternalImportsByDefault"),
            // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0461-async-function-isolation.md
            .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
        ] + (Context.environment["CI"] == nil ? [] : [.treatAllWarnings(as: .error)])
}
