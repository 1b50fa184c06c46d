// swift-tools-version: 6.2
import PackageDescription

let core: Target.Dependency = "SyncCore"
let sqlite: Target.Dependency = .product(name: "GRDB", package: "GRDB.swift")
let sqliteC: Target.Dependency = .product(name: "GRDBSQLite", package: "GRDB.swift")
let log: Target.Dependency = .product(name: "Logging", package: "swift-log")
let metrics: Target.Dependency = .product(name: "CoreMetrics", package: "swift-metrics")
let httpTypes: Target.Dependency = .product(name: "HTTPTypes", package: "swift-http-types")
let asyncHTTPClient: Target.Dependency = .product(
    name: "AsyncHTTPClient", package: "async-http-client",
    condition: .when(platforms: [.linux], traits: ["AsyncHTTPClient"]))
/// The types in AsyncHTTPClient's interface; it brings these packages along anyway.
let nio = [("NIOCore", "swift-nio"), ("NIOHTTP1", "swift-nio"), ("NIOSSL", "swift-nio-ssl")].map {
    Target.Dependency.product(
        name: $0, package: $1, condition: .when(platforms: [.linux], traits: ["AsyncHTTPClient"]))
}

/// The six modules around SyncCore; none may depend on another (`.ci/check-star` holds them to it).
let leaves = ["DeltaCalculator", "Storage", "UploadQueue", "DownloadQueue", "SyncState", "Transport"]

/// A library product for each module, so that each can be picked alone.
let modules = ["SyncCore"] + leaves + ["Orchestrator", "SyncServer"]

let package = Package(
    name: "Ferry",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: modules.map { .library(name: $0, targets: [$0]) } + [
        .library(name: "SyncTesting", targets: ["SyncTesting", "SyncSimulator"]),
        .library(name: "Ferry", targets: ["Ferry"]),
    ],
    traits: [
        .trait(
            name: "AsyncHTTPClient",
            description: "HTTP over AsyncHTTPClient on Linux; without it an app brings its own HTTP client."),
        .default(enabledTraits: ["AsyncHTTPClient"]),
    ],
    dependencies: [
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.81.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.29.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.5.0"),
    ],
    targets: [
        // The words and the seams.
        .target(name: "SyncCore", path: "Modules/SyncCore"),

        // The leaves.
        .target(name: "DeltaCalculator", dependencies: [core], path: "Modules/DeltaCalculator"),
        .target(name: "Storage", dependencies: [core, sqlite, sqliteC], path: "Modules/Storage"),
        .target(name: "UploadQueue", dependencies: [core], path: "Modules/UploadQueue"),
        .target(name: "DownloadQueue", dependencies: [core], path: "Modules/DownloadQueue"),
        .target(name: "SyncState", dependencies: [core], path: "Modules/SyncState"),
        .target(
            name: "Transport", dependencies: [core, httpTypes, log, asyncHTTPClient, "CZlib"] + nio,
            path: "Modules/Transport"),

        // The only room that knows all the others.
        .target(
            name: "Orchestrator", dependencies: [core, log, metrics] + leaves.map { .target(name: $0) },
            path: "Modules/Orchestrator"),

        // The other end, without HTTP.
        .target(name: "SyncServer", dependencies: [core, sqlite, sqliteC], path: "Modules/SyncServer"),

        // Fakes, clocks, contract suites; and the simulator, which runs the whole.
        .target(name: "SyncTesting", dependencies: [core, httpTypes], path: "Modules/SyncTesting"),
        .target(
            name: "SyncSimulator",
            dependencies: [
                core, "SyncTesting", "Orchestrator", "SyncServer", "Storage", "Transport", "UploadQueue", httpTypes,
                sqlite, sqliteC, log, metrics, "CSQLiteMemory",
            ],
            path: "Modules/SyncSimulator"),

        // Everything with one import.
        .target(
            name: "Ferry", dependencies: [core, "Orchestrator"] + leaves.map { .target(name: $0) },
            path: "Modules/Ferry"),

        .systemLibrary(
            name: "CSQLiteMemory", path: "Modules/CSQLiteMemory", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(
            name: "CZlib", path: "Modules/CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),

        .testTarget(name: "SyncCoreTests", dependencies: [core, "SyncTesting"], path: "Tests/SyncCoreTests"),
        .testTarget(
            name: "DeltaCalculatorTests", dependencies: [core, "DeltaCalculator", "SyncTesting"],
            path: "Tests/DeltaCalculatorTests"),
        .testTarget(
            name: "StorageTests", dependencies: [core, "Storage", "SyncTesting", sqlite, sqliteC, "storage-victim"],
            path: "Tests/StorageTests"),
        // What `KilledProcessTests` kills; a program, but no product.
        .executableTarget(
            name: "storage-victim", dependencies: [core, "Storage", sqlite], path: "Tests/StorageVictim"),
        .testTarget(
            name: "UploadQueueTests", dependencies: [core, "UploadQueue", "SyncTesting", "Storage", sqlite],
            path: "Tests/UploadQueueTests"),
        .testTarget(
            name: "DownloadQueueTests", dependencies: [core, "DownloadQueue", "SyncTesting"],
            path: "Tests/DownloadQueueTests"),
        .testTarget(
            name: "SyncStateTests", dependencies: [core, "SyncState", "SyncTesting"], path: "Tests/SyncStateTests"),
        .testTarget(
            name: "TransportTests",
            dependencies: [
                core, "Transport", "SyncTesting", httpTypes, log,
                .product(
                    name: "NIOPosix", package: "swift-nio",
                    condition: .when(platforms: [.linux], traits: ["AsyncHTTPClient"])),
            ] + nio,
            path: "Tests/TransportTests"),
        .testTarget(
            name: "OrchestratorTests",
            dependencies: [
                core, "Orchestrator", "Storage", "UploadQueue", "DownloadQueue", "Transport", "SyncTesting",
                "SyncServer", httpTypes, sqlite, log, metrics,
                .product(name: "MetricsTestKit", package: "swift-metrics"),
            ],
            path: "Tests/OrchestratorTests"),
        .testTarget(
            name: "SyncServerTests", dependencies: [core, "SyncServer", "SyncTesting", sqlite],
            path: "Tests/SyncServerTests"),
        // `Tests/run simulate`; a program, but no product.
        .executableTarget(name: "seeds", dependencies: ["SyncSimulator", "CSilentReads"], path: "Tests/Simulate"),
        .target(name: "CSilentReads", path: "Tests/SimulateSQLite"),
        .testTarget(
            name: "SyncTestingTests", dependencies: [core, "SyncTesting"], path: "Tests/SyncTestingTests"),
        .testTarget(
            name: "SyncSimulatorTests",
            dependencies: [
                core, "Orchestrator", "Storage", "SyncTesting", "SyncSimulator", "Transport", httpTypes, sqlite,
                metrics,
            ],
            path: "Tests/SyncSimulatorTests"),
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
