import Foundation
import GRDB
import SyncCore
import Testing

@testable import SyncServer

@Suite("Another history: data set, epoch, expired checkpoints, backups")
struct HistoryTests {
    private func code(_ reply: ServerReply) throws -> FieldValue { try FieldValue(json: reply.body)["code"] }

    @Test("NET-22 another data set is refused before anything is decided")
    func dataset() throws {
        let server = try TestServer()
        let reply = try server.send("d", [server.create("k1", 1, "board", "b1")], from: 0, ["dataset": "d-other"])
        #expect(reply.status == 409)
        #expect(try code(reply) == "otherDataset")
        #expect(try server.sync("e").records.isEmpty)
    }

    @Test("DL-09 another epoch, or a checkpoint above the server's, is told with the present epoch")
    func epoch() throws {
        let server = try TestServer()
        let epoch = try server.sync("d")["epoch"]
        for more: [String: FieldValue] in [["epoch": "e-other"], ["lastSyncVersion": 1], ["scopes": ["board:b": 1]]] {
            let reply = try server.send("d", [], from: 0, more)
            #expect(reply.status == 410)
            #expect(try code(reply) == "epochChanged")
            #expect(try FieldValue(json: reply.body)["epoch"] == epoch)
        }
    }

    @Test("a restart keeps epoch, data set and records; `isRestored` begins a new epoch")
    func restart() throws {
        let server = try TestServer()
        let first = try server.sync("d", [server.create("k1", 1, "board", "b1")])
        try server.restart()
        let second = try server.sync("d", from: 0)
        #expect(second["epoch"] == first["epoch"])
        #expect(second["dataset"] == first["dataset"])
        #expect(second.records.count == 1)
        server.configuration.isRestored = true
        try server.restart()
        let third = try server.sync("d", from: 0)
        #expect(third["epoch"] != first["epoch"])
        #expect(third["dataset"] == first["dataset"])
    }

    @Test("DL-09 an older file put in its place is noticed by FILE.version")
    func olderFile() throws {
        let server = try TestServer()
        let epoch = try server.sync("d", [server.create("k1", 1, "board", "b1")])["epoch"]
        let copy = server.folder.appendingPathComponent("old")
        try server.restart { server in
            try FileManager.default.copyItem(atPath: server.path, toPath: copy.path)
        }
        #expect(try server.sync("d", from: 1)["epoch"] == epoch)
        try server.sync("d", [server.create("k2", 2, "board", "b2")], from: 1)
        try server.restart { server in
            try FileManager.default.removeItem(atPath: server.path)
            try FileManager.default.copyItem(at: copy, to: URL(fileURLWithPath: server.path))
        }
        let after = try server.sync("d", from: 0)
        #expect(after["epoch"] != epoch)
        #expect(after.version == 1)
        try server.restart()
        #expect(try server.sync("d")["epoch"] == after["epoch"], "once, not at every start")
    }

    @Test(
        "DL-09 an older file put in its place once more, before anything was written, begins another epoch, not its own again"
    )
    func olderFileTwice() throws {
        let server = try TestServer()
        var epochs = [try server.sync("d", [server.create("k1", 1, "board", "b1")])["epoch"]]
        let copy = server.folder.appendingPathComponent("old")
        try server.restart { server in
            try FileManager.default.copyItem(atPath: server.path, toPath: copy.path)
        }
        try server.sync("d", [server.create("k2", 2, "board", "b2")], from: 1)
        for isRestored in [false, false, true, false] {
            server.configuration.isRestored = isRestored
            try server.restart { server in
                try FileManager.default.removeItem(atPath: server.path)
                try FileManager.default.copyItem(at: copy, to: URL(fileURLWithPath: server.path))
            }
            let after = try server.sync("d", from: 0)
            #expect(!epochs.contains(after["epoch"]))
            #expect(after.version == 1)
            epochs.append(after["epoch"])
        }
        // The server was started without the file meanwhile, and made another.
        try server.restart { server in
            try FileManager.default.removeItem(atPath: server.path)
        }
        epochs.append(try server.sync("d", from: 0)["epoch"])
        try server.restart { server in
            try FileManager.default.removeItem(atPath: server.path)
            try FileManager.default.copyItem(at: copy, to: URL(fileURLWithPath: server.path))
        }
        let last = try server.sync("d", from: 0)["epoch"]
        #expect(!epochs.contains(last))
        epochs.append(last)
        try server.restart()
        #expect(try server.sync("d")["epoch"] == epochs.last, "once, not at every start")
    }

    @Test(
        "DL-09 an account that a restored backup does not know has the data set that it had, by an earlier program, too",
        arguments: [false, true])
    func unknownToBackup(isEarlier: Bool) throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1")])
        // A file of an earlier program has no such name.
        if isEarlier { try server.service.inStore { state, _ in try state.store.setMeta("identity", nil) } }
        let copy = server.folder.appendingPathComponent("old").path
        try server.service.backup(to: copy)
        if isEarlier { try server.restart() }
        server.account = "late"
        let first = try server.sync("l", [server.create("k2", 1, "board", "b2")])
        server.account = "later"
        let other = try server.sync("l", [server.create("k3", 1, "board", "b2")])
        #expect(other["dataset"] != first["dataset"])
        try server.restart { server in
            for suffix in ["", "-wal", "-shm"] where FileManager.default.fileExists(atPath: server.path + suffix) {
                try FileManager.default.removeItem(atPath: server.path + suffix)
            }
            try FileManager.default.copyItem(atPath: copy, toPath: server.path)
        }
        for (account, known) in [("later", other), ("late", first)] {
            server.account = account
            let reply = try server.send(
                "l", [], from: known.version, ["dataset": known["dataset"], "epoch": known["epoch"]])
            #expect(try code(reply) == "epochChanged", "a full pass, with everything kept")
            #expect(try server.sync("l")["dataset"] == known["dataset"])
        }
    }

    @Test("a backup is whole while the server goes on, and begins a new epoch when it is opened")
    func backup() throws {
        let server = try TestServer()
        let epoch = try server.sync("d", [server.create("k1", 1, "board", "b1")])["epoch"]
        let target = server.folder.appendingPathComponent("backup.sqlite").path
        try server.service.backup(to: target)
        try server.sync("d", [server.create("k2", 2, "board", "b2")], from: 1)
        #expect(throws: ServiceFailure.targetExists(path: target)) { try server.service.backup(to: target) }
        let other = try SyncService(
            path: target, configuration: server.configuration, clock: server.clock, randomness: server.randomness)
        let reply = other.sync(
            account: "a",
            body: Array(#"{"protocol":1,"cycleID":"c","deviceID":"x","lastSyncVersion":0,"dirtyRecords":[]}"#.utf8))
        #expect(try Answer(reply).records.count == 1)
        #expect(try Answer(reply)["epoch"] != epoch)
        try other.close()
    }

    @Test("a backup that ends in the middle leaves nothing under its name, and nothing beside it when it fails")
    func halfBackup() throws {
        struct Stopped: Error {}
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1")])
        let folder = server.folder.appendingPathComponent("backups").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        let target = "\(folder)/backup.sqlite"
        #expect(throws: ServiceFailure.self) {
            try SyncService.backup(database: server.path, to: target) {
                // Who is killed here leaves what there is now.
                #expect(!FileManager.default.fileExists(atPath: target))
                throw Stopped()
            }
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder).isEmpty)
        try server.service.backup(to: target)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["backup.sqlite"])
    }

    @Test("a backup of what is no server's database says so under that file's name, and makes nothing")
    func backupOfSomethingElse() throws {
        let server = try TestServer()
        let (text, other) = (server.folder.path + "/notes.txt", server.folder.path + "/other.sqlite")
        try Data(String(repeating: "no database ", count: 100).utf8).write(to: URL(fileURLWithPath: text))
        let queue = try DatabaseQueue(path: other)
        try queue.write { try $0.execute(sql: "CREATE TABLE note(text TEXT)") }
        try queue.close()
        let target = server.folder.path + "/backup.sqlite"
        for path in [text, other] {
            #expect(throws: ServiceFailure.storage(path: path, reason: "it is not a server's database")) {
                try SyncService.backup(database: path, to: target)
            }
            #expect(!FileManager.default.fileExists(atPath: target))
        }
    }

    @Test("a second server on the file is refused")
    func secondServer() throws {
        let server = try TestServer()
        #expect(throws: ServiceFailure.fileInUse(path: server.path)) {
            try SyncService(
                path: server.path, configuration: server.configuration, clock: server.clock,
                randomness: server.randomness)
        }
    }

    @Test("DL-12 tombstones are kept, then go; who is older than that must make a full pass")
    func tombstones() throws {
        let server = try TestServer()
        let day: Int64 = 86_400_000
        try server.sync(
            "d",
            [
                server.create("k1", 1, "board", "b1"), server.create("k2", 2, "list", "l1", ["idBoard": "b1"]),
                server.create("k3", 3, "board", "b3"), server.delete("k4", 4, "board", "b1", at: 1),
            ])
        server.clock.advance(by: 89 * day)
        try server.service.prune()
        #expect(try server.sync("e", from: 3)["oldestVersion"] == 0)
        #expect(try server.sync("e", from: 3).records.count == 2)
        server.clock.advance(by: 30 * day)
        try server.service.prune()
        try server.service.prune()
        let reply = try server.send("e", [server.create("n1", 1, "board", "n1")], from: 3)
        #expect(reply.status == 410)
        #expect(try code(reply) == "checkpointExpired")
        #expect(try server.sync("e", from: 0).records.map { $0["id"] } == ["b3"])
        #expect(try server.sync("e", from: 3, ["fullPass": true])["oldestVersion"] == 5)
        #expect(try server.sync("e", from: 5).records.isEmpty)
        #expect(
            try server.sync("x", [server.create("n1", 1, "list", "n1", ["idBoard": "b3"])]).verdict("n1") == "applied")
    }

    @Test("IDS-10 outcomes are kept for a year at least, then go")
    func outcomes() throws {
        let server = try TestServer()
        let change = server.create("k1", 1, "board", "b1")
        try server.sync("d", [change])
        server.clock.advance(by: 366 * 86_400_000)
        try server.service.prune()
        #expect(try server.sync("d", [change]).verdict("k1") == "duplicate")
        server.clock.advance(by: 60 * 86_400_000)
        try server.service.prune()
        #expect(try server.sync("d", [change]).verdict("k1") == "applied", "the same create again has no effect")
    }
}
