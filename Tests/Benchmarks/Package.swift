// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "FerryBenchmarks",
    platforms: [.macOS(.v15)],
    traits: [
        .trait(name: "HTTP", description: "Measures over sockets too, which builds SwiftNIO.")
    ],
    dependencies: [
        .package(
            name: "Ferry", path: "../..",
            traits: [.trait(name: "AsyncHTTPClient", condition: .when(traits: ["HTTP"]))]),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.81.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    ],
    targets: [
        .target(name: "Measuring"),
        // Needs SQLite and nothing of HTTP: built by itself it is quick.
        .executableTarget(
            name: "StorageBenchmarks",
            dependencies: [
                "Measuring",
                .product(name: "SyncCore", package: "Ferry"),
                .product(name: "Storage", package: "Ferry"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ]),
        // The engine without a network: against the server's core, in real and in virtual time.
        .executableTarget(
            name: "EngineBenchmarks",
            dependencies: [
                "Measuring",
                .product(name: "SyncCore", package: "Ferry"),
                .product(name: "Storage", package: "Ferry"),
                .product(name: "UploadQueue", package: "Ferry"),
                .product(name: "Transport", package: "Ferry"),
                .product(name: "Orchestrator", package: "Ferry"),
                .product(name: "SyncServer", package: "Ferry"),
                .product(name: "SyncTesting", package: "Ferry"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .executableTarget(
            name: "Benchmarks",
            dependencies: [
                "Measuring",
                .product(name: "SyncCore", package: "Ferry"),
                .product(name: "Transport", package: "Ferry"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "SyncTesting", package: "Ferry", condition: .when(traits: ["HTTP"])),
                .product(name: "AsyncHTTPClient", package: "async-http-client", condition: .when(traits: ["HTTP"])),
                .product(name: "NIOCore", package: "swift-nio", condition: .when(traits: ["HTTP"])),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: .when(traits: ["HTTP"])),
            ]),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
}
