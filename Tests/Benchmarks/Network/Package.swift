// swift-tools-version: 6.2
import PackageDescription

// A package of its own: these benchmarks need the HTTP client, which takes long to build.
let package = Package(
    name: "FerryNetworkBenchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "Ferry", path: "../../.."),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    ],
    targets: [
        .executableTarget(
            name: "UploadBenchmarks",
            dependencies: [
                .product(name: "SyncCore", package: "Ferry"),
                .product(name: "Storage", package: "Ferry"),
                .product(name: "Transport", package: "Ferry"),
                .product(name: "UploadQueue", package: "Ferry"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
            ]),
        // One device as a process, and the program that drives two of them and a server.
        .executableTarget(
            name: "SyncWorker",
            dependencies: [
                .product(name: "Ferry", package: "Ferry"),
                .product(name: "Transport", package: "Ferry"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .executableTarget(name: "SyncBenchmarks"),
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
