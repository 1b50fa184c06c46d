public import SyncCore

/// What every ``DownloadLog`` must keep; run each rule on a fresh, empty one.
public enum DownloadLogContract {
    public static let rules: [ContractRule<any DownloadLog>] = [
        ContractRule("DownloadLog", "an empty log has nothing to claim") { log, expect in
            try expect.equal(await log.claim(), nil, "claim")
        },
        ContractRule("DownloadLog", "the most urgent wish comes first, the oldest among equals") { log, expect in
            try await log.ask(DownloadRequest(scope: "board:a", priority: 1))
            try await log.ask(DownloadRequest(scope: "board:b", priority: 5))
            try await log.ask(DownloadRequest(scope: "board:c", priority: 5))
            var order: [String] = []
            while let next = try await log.claim() {
                order.append(next.scope)
                try await log.finish(next.scope)
            }
            try expect.equal(order, ["board:b", "board:c", "board:a"], "order")
        },
        ContractRule("DownloadLog", "asking again raises the priority and makes no second wish") { log, expect in
            try await log.ask(DownloadRequest(scope: "board:a", priority: 1))
            try await log.ask(DownloadRequest(scope: "board:b", priority: 2))
            try await log.ask(DownloadRequest(scope: "board:a", priority: 3))
            try expect.equal(await log.claim(), DownloadRequest(scope: "board:a", priority: 3), "first")
            try await log.finish("board:a")
            try expect.equal(await log.claim()?.scope, "board:b", "second")
            try await log.finish("board:b")
            try expect.equal(await log.claim(), nil, "third")
        },
        ContractRule("DownloadLog", "asking again never lowers the priority") { log, expect in
            try await log.ask(DownloadRequest(scope: "board:a", priority: 3))
            try await log.ask(DownloadRequest(scope: "board:a", priority: 1))
            try expect.equal(await log.claim()?.priority, 3, "priority")
        },
        ContractRule("DownloadLog", "what is claimed is not claimed twice") { log, expect in
            try await log.ask(DownloadRequest(scope: "", priority: 0))
            try expect.isTrue(await log.claim() != nil, "nothing to claim")
            try expect.equal(await log.claim(), nil, "second claim")
        },
        ContractRule("DownloadLog", "what is withdrawn can be claimed again") { log, expect in
            try await log.ask(DownloadRequest(scope: "board:a", priority: 1))
            _ = try await log.claim()
            try await log.withdraw("board:a")
            try expect.equal(await log.claim()?.scope, "board:a", "claim after withdrawal")
        },
        ContractRule("DownloadLog", "what is asked for again while it is fetched is fetched again, once") {
            log, expect in
            try await log.ask(DownloadRequest(scope: "board:a", priority: 1))
            _ = try await log.claim()
            try await log.ask(DownloadRequest(scope: "board:a", priority: 2))
            try expect.equal(await log.claim(), nil, "a second claim while the first is at work")
            try await log.finish("board:a")
            try expect.equal(await log.claim(), DownloadRequest(scope: "board:a", priority: 2), "claim after that")
            try await log.finish("board:a")
            try expect.equal(await log.claim(), nil, "a third claim")
        },
    ]
}
