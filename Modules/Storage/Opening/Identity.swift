import Foundation
import GRDB
import SyncCore

/// Which device this is: a file that was restored or copied is another one (PRC-19).
///
/// The file notes where it lives (volume and inode) with its device id. Another place means a copy: it gets a new device
/// id, and the unsent changes keep the earlier one, under which the server may know them.
enum Identity {
  static func check(_ db: Database, path: String, now: Int64) throws {
    let home = home(of: path)
    guard let device = try Meta.text(db, .device) else {
      try Meta.set(db, .device, Clock.key(db))
      return try Meta.set(db, .home, home)
    }
    let earlier = try Meta.text(db, .home)
    guard let home, let earlier, home != earlier else {
      if earlier == nil, home != nil { try Meta.set(db, .home, home) }
      return
    }
    try renew(db, from: device, home: home, now: now)
  }

  private static func renew(_ db: Database, from device: String, home: String, now: Int64) throws {
    try db.execute(
      sql: "UPDATE sync_change SET device = ? WHERE device IS NULL", arguments: [device])
    try Meta.set(db, .device, Clock.freshKey(db))
    try Meta.set(db, .home, home)
    try db.execute(
      sql: "UPDATE sync_lease SET holder = NULL, generation = generation + 1, expires = NULL")
    try Journal.event(
      db, .newDevice, detail: "The file was restored or copied; before it was \(device).", at: now)
  }

  /// Volume and inode, or `nil` for what is no file.
  private static func home(of path: String) -> String? {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    return "\(status.st_dev):\(status.st_ino)"
  }
}
