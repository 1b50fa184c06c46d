// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "TransportConsumer",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "Ferry", path: "../../..")],
    targets: [
        .executableTarget(
            name: "Consumer",
            dependencies: [.product(name: "Transport", package: "Ferry"), .product(name: "SyncCore", package: "Ferry")])
    ],
    swiftLanguageModes: [.v6]
)
