// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "DownloadQueueConsumer",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "Ferry", path: "../../..", traits: [])],
    targets: [
        .executableTarget(
            name: "Consumer",
            dependencies: [
                .product(name: "DownloadQueue", package: "Ferry"), .product(name: "SyncCore", package: "Ferry"),
            ])
    ],
    swiftLanguageModes: [.v6]
)
