// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "FerryBenchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "Ferry", path: "../..", traits: []),
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
        .executableTarget(
            name: "Benchmarks",
            dependencies: [
                "Measuring",
                .product(name: "SyncCore", package: "Ferry"),
                .product(name: "Transport", package: "Ferry"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
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
