import Foundation
import GRDB
internal import GRDBSQLite

/// A step between SQLite and the system's files, through which a device's disk fails: what SQLite then does with its
/// journal, its cache and its transaction is its own.
///
/// It stands as SQLite's default for the whole process; a file that is no simulated device's is handed on untouched, and
/// costs one look at its path when it is opened.
enum DiskShim {
    /// What is asked of a disk, as far as it can fail.
    enum Operation: Sendable, Hashable {
        case read, write, sync, lock
    }

    /// What stands behind the system's own part of an open file.
    private struct Rest {
        var methods: UnsafePointer<sqlite3_io_methods>
        var disk: Unmanaged<DiskHook>
        /// It holds a reader's lock of the log.
        var isReading = false
        var table: sqlite3_io_methods
    }

    /// In the log's shared memory (SQLite's `WAL_READ_LOCK(0)`).
    private static let firstReadersLock: CInt = 3

    /// The devices' disks, by their databases' paths.
    private final class Disks: @unchecked Sendable {
        // Sendable: `known` is used under `lock` alone.
        private let lock = NSLock()
        private var known: [String: DiskHook] = [:]

        func set(_ disk: DiskHook?, at path: String) { lock.withLock { known[path] = disk } }
        func find(_ path: String) -> DiskHook? { lock.withLock { known[path] } }
    }

    private static let disks = Disks()
    /// The system's own way to files.
    nonisolated(unsafe) private static let real = sqlite3_vfs_find(nil)
    private static let size = Int(real?.pointee.szOsFile ?? 0)
    /// Set up at the first device, and there as long as the process.
    nonisolated(unsafe) private static let shim: UnsafeMutablePointer<sqlite3_vfs>? = {
        guard let real else { return nil }
        let shim = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        shim.initialize(to: real.pointee)
        shim.pointee.pNext = nil
        shim.pointee.zName = UnsafePointer(strdup("simulated"))
        shim.pointee.szOsFile = CInt(size + MemoryLayout<Rest>.stride)
        shim.pointee.xOpen = { DiskShim.open($1, $2, $3, $4) }
        return sqlite3_vfs_register(shim, 1) == SQLITE_OK ? shim : nil
    }()

    /// From now on the files of this database are on that disk.
    static func put(_ disk: DiskHook, under path: String) {
        precondition(shim != nil && size % MemoryLayout<Rest>.alignment == 0, "SQLite takes no other files")
        disks.set(disk, at: key(path))
    }

    static func remove(_ path: String) { disks.set(nil, at: key(path)) }

    /// SQLite asks for files by their full paths, which may go through no link.
    private static func key(_ path: String) -> String { path.split(separator: "/").suffix(3).joined(separator: "/") }

    private static func open(
        _ name: UnsafePointer<CChar>?, _ file: UnsafeMutablePointer<sqlite3_file>?, _ flags: CInt,
        _ out: UnsafeMutablePointer<CInt>?
    ) -> CInt {
        guard let real, let file else { return SQLITE_CANTOPEN }
        let code = real.pointee.xOpen(real, name, file, flags, out)
        guard code == SQLITE_OK, let name, let methods = file.pointee.pMethods,
            flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL) != 0
        else { return code }
        var path = String(cString: name)
        for ending in ["-wal", "-journal"] where path.hasSuffix(ending) { path.removeLast(ending.count) }
        guard let disk = disks.find(key(path)) else { return code }
        let rest = rest(of: file)
        rest.initialize(to: Rest(methods: methods, disk: Unmanaged.passRetained(disk), table: methods.pointee))
        put(&rest.pointee.table)
        // The table stays where it is as long as the file is open.
        file.pointee.pMethods = UnsafeRawPointer(rest).advanced(by: MemoryLayout<Rest>.offset(of: \.table) ?? 0)
            .assumingMemoryBound(to: sqlite3_io_methods.self)
        return code
    }

    /// Puts the ways in which a disk fails into a table of the system's.
    private static func put(_ table: inout sqlite3_io_methods) {
        table.xClose = { file in
            guard let file else { return SQLITE_OK }
            let rest = DiskShim.rest(of: file)
            defer { rest.pointee.disk.release() }
            return rest.pointee.methods.pointee.xClose(file)
        }
        table.xRead = { file, bytes, count, offset in
            DiskShim.does(.read, file) { $0.xRead(file, bytes, count, offset) }
        }
        table.xWrite = { file, bytes, count, offset in
            DiskShim.does(.write, file) { $0.xWrite(file, bytes, count, offset) }
        }
        table.xSync = { file, flags in DiskShim.does(.sync, file) { $0.xSync(file, flags) } }
        table.xLock = { file, level in
            guard let file else { return SQLITE_IOERR }
            // A reader's lock is none that another writer keeps one from.
            guard level < SQLITE_LOCK_RESERVED else { return DiskShim.does(.lock, file) { $0.xLock(file, level) } }
            return DiskShim.rest(of: file).pointee.methods.pointee.xLock(file, level)
        }
        table.xShmLock = { file, offset, count, flags in
            guard let file else { return SQLITE_IOERR }
            let rest = DiskShim.rest(of: file)
            // The first of the log's locks is the writer's. Who takes it without reading puts the log's index in order, and would wait
            // for that in real time.
            if rest.pointee.isReading, offset == 0, flags == SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE {
                let code = DiskShim.does(.lock, file) { $0.xShmLock(file, offset, count, flags) }
                if code == SQLITE_BUSY { rest.pointee.disk.takeUnretainedValue().noteBusy() }
                return code
            }
            let code = rest.pointee.methods.pointee.xShmLock(file, offset, count, flags)
            if code == SQLITE_OK, flags & SQLITE_SHM_SHARED != 0, offset >= DiskShim.firstReadersLock {
                rest.pointee.isReading = flags & SQLITE_SHM_LOCK != 0
            }
            return code
        }
    }

    private static func does(
        _ operation: Operation, _ file: UnsafeMutablePointer<sqlite3_file>?, _ body: (sqlite3_io_methods) -> CInt
    ) -> CInt {
        guard let file else { return SQLITE_IOERR }
        let rest = rest(of: file)
        if let code = rest.pointee.disk.takeUnretainedValue().failure(of: operation) { return code.rawValue }
        return body(rest.pointee.methods.pointee)
    }

    private static func rest(of file: UnsafeMutablePointer<sqlite3_file>) -> UnsafeMutablePointer<Rest> {
        UnsafeMutableRawPointer(file).advanced(by: size).assumingMemoryBound(to: Rest.self)
    }
}
