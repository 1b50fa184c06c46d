// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "UploadQueueConsumer",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "Ferry", path: "../../..", traits: [])],
    targets: [
        .executableTarget(
            name: "Consumer",
            dependencies: [
                .product(name: "UploadQueue", package: "Ferry"), .product(name: "SyncCore", package: "Ferry"),
            ])
    ],
    swiftLanguageModes: [.v6]
)
