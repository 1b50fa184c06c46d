import GRDB
import SyncTesting

extension FaultTape {
    /// What a disk says.
    public enum DiskFailure: Int, Sendable, Hashable, CaseIterable {
        /// Nothing can be written.
        case full
        /// Neither written nor synced.
        case io
        /// Another connection holds the writer's lock.
        case busy
        /// Nothing can be read.
        case unreadable
    }
}

extension FaultTape.DiskFailure {
    /// For the list of faults that struck.
    var name: String {
        switch self {
        case .full: "full disk"
        case .io: "disk error"
        case .busy: "busy file"
        case .unreadable: "disk error at reading"
        }
    }

    var situation: Situation {
        switch self {
        case .full: .fullDisk
        case .io: .diskError
        case .busy: .busyFile
        case .unreadable: .unreadableDisk
        }
    }

    /// What SQLite is told where the disk is asked for this; `nil` where that goes well.
    func code(for operation: DiskShim.Operation) -> ResultCode? {
        switch (self, operation) {
        case (.full, .write): .SQLITE_FULL
        case (.io, .write): .SQLITE_IOERR_WRITE
        case (.io, .sync): .SQLITE_IOERR_FSYNC
        case (.busy, .lock): .SQLITE_BUSY
        case (.unreadable, .read): .SQLITE_IOERR_READ
        default: nil
        }
    }
}
