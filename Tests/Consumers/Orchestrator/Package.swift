// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "OrchestratorConsumer",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "Ferry", path: "../../..")],
    targets: [
        .executableTarget(
            name: "Consumer",
            dependencies: [
                .product(name: "Orchestrator", package: "Ferry"), .product(name: "SyncCore", package: "Ferry"),
            ])
    ],
    swiftLanguageModes: [.v6]
)
