// swift-tools-version: 6.2
import PackageDescription

// A package of its own: nobody who uses the library builds it. `Tests/Fuzz/run` builds it with libFuzzer.
let package = Package(
    name: "FerryFuzz",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "Ferry", path: "../..", traits: []),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    ],
    targets: [
        .executableTarget(
            name: "Fuzz",
            dependencies: [
                .product(name: "SyncCore", package: "Ferry"),
                .product(name: "Transport", package: "Ferry"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
            ])
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
