import Foundation
import SyncTesting

/// A device's write-ahead log as a disk keeps it: what was synced is there when the power goes; of what was written after
/// that any beginning, and then rubbish.
///
/// SQLite syncs the log before a checkpoint, and the database before the log begins anew (`synchronous=NORMAL`), so frames
/// that a checkpoint has taken over are on the disk. Where that is stands in the log's shared memory.
struct LogFile {
    /// So many frames of the log with this salt are on the disk.
    struct Synced {
        var salt: Data
        var frames: Int
    }

    let salt: Data
    /// Frames of what is committed, and those of them that a checkpoint took over.
    let frames: Int
    let backfilled: Int
    private let pageSize: Int
    private static let header = 32
    private static let frameHeader = 24

    /// - Parameter database: the path of a database that is open.
    /// - Returns: `nil` where nothing was written into the log yet.
    init?(database: String) {
        guard let head = FileHandle(forReadingAtPath: database + "-wal")?.readData(ofLength: Self.header),
            let shared = FileHandle(forReadingAtPath: database + "-shm")?.readData(ofLength: 136),
            head.count == Self.header, shared.count == 136
        else { return nil }
        salt = head[16..<24]
        pageSize = head[8..<12].reduce(0) { $0 << 8 | Int($1) }
        // The index is in the machine's own order (SQLite's `WalIndexHdr` and `WalCkptInfo`).
        func number(_ place: Int) -> Int {
            Int(shared.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: place, as: UInt32.self) })
        }
        (frames, backfilled) = (number(16), number(96))
    }

    /// What is left of the log's bytes where so many frames came to the disk.
    func cut(_ bytes: Data, keeping kept: Int, _ chance: inout SeededGenerator) -> Data {
        let size = Self.frameHeader + pageSize
        let end = Self.header + kept * size
        guard bytes.count > end else { return bytes }
        var left = Data(bytes.prefix(end))
        switch chance.below(3) {
        case 0: break
        case 1:
            // The file is as long as it was, and what did not come to the disk is zeros.
            left.append(Data(count: bytes.count - end))
        default:
            // A frame is torn: its beginning came, the rest is what stood there before.
            let torn = chance.below(min(size, bytes.count - end))
            left.append(bytes[(bytes.startIndex + end)..<(bytes.startIndex + end + torn)])
            left.append(Data((torn..<size).map { _ in UInt8(truncatingIfNeeded: chance.next()) }))
        }
        return left
    }
}

extension LogFile {
    /// The database's bytes where the power goes while a checkpoint takes this log over: of the pages some came, and some in
    /// part.
    ///
    /// The log is synced before a checkpoint writes into the database, and begins anew only after the database is, so each
    /// page that came, whole or torn, stands in the log, too.
    func halfTakenOver(_ database: Data, _ log: Data, _ chance: inout SeededGenerator) -> Data {
        let size = Self.frameHeader + pageSize
        var newest: [Int: Int] = [:]
        for frame in 0..<frames {
            let place = log.startIndex + Self.header + frame * size
            newest[log[place..<place + 4].reduce(0) { $0 << 8 | Int($1) }] = place + Self.frameHeader
        }
        var left = Data(database)
        for (page, content) in newest.sorted(by: { $0.key < $1.key }) where chance.chance(0.5) {
            let start = (page - 1) * pageSize
            if left.count < start + pageSize { left.append(Data(count: start + pageSize - left.count)) }
            let came = chance.chance(0.2) ? chance.below(pageSize) : pageSize
            left.replaceSubrange(start..<start + came, with: log[content..<content + came])
        }
        return left
    }
}

/// What a loss of power did to a device.
struct PowerLoss {
    /// Frames of committed work that are gone.
    var lost = 0
    var isInCheckpoint = false
}

extension SimulatedDevice {
    /// Frames that a checkpoint took over, or that a commit with `synchronous=FULL` wrote, are on the disk for good.
    func noteSynced(all: Bool = false) {
        guard let log = LogFile(database: folder.databasePath) else { return }
        let frames = all ? log.frames : log.backfilled
        let known = synced?.salt == log.salt ? synced?.frames ?? 0 : 0
        synced = LogFile.Synced(salt: log.salt, frames: max(frames, known))
    }

    /// The power goes: the process dies, and of what was not synced a part is gone; or it goes within a checkpoint, before
    /// which all was synced.
    func losePower(_ chance: inout SeededGenerator) -> PowerLoss {
        noteSynced()
        let log = LogFile(database: folder.databasePath)
        kill()
        boot += 1
        // The number beside the file may have come to the disk, or not.
        if chance.chance(0.5) { dropFromPicture(DeviceFolder.database + "-device") }
        guard let log else { return PowerLoss() }
        if log.frames > 0, chance.chance(0.3) {
            synced = LogFile.Synced(salt: log.salt, frames: log.frames)
            let bytes = picture?[DeviceFolder.database + "-wal"] ?? Data()
            cutPicture(DeviceFolder.database) { log.halfTakenOver($0, bytes, &chance) }
            return PowerLoss(isInCheckpoint: true)
        }
        guard let synced, synced.salt == log.salt, log.frames > synced.frames else { return PowerLoss() }
        let kept = synced.frames + chance.below(log.frames - synced.frames + 1)
        cutPicture(DeviceFolder.database + "-wal") { log.cut($0, keeping: kept, &chance) }
        return PowerLoss(lost: log.frames - kept)
    }
}
