import GRDB
import SyncCore

/// A full pass into the live database (PROTOCOL.md, *Another history*).
///
/// Each record that it brings is marked with the pass's number; at the end, rows that are in step and not marked go,
/// but never more than the threshold without the app's word, and journalled first where history was replaced.
enum FullPass {
  /// More than this part of the rows in step goes only with the app's word.
  static let threshold = 0.2

  /// Begins a pass, or goes on with one of the same epoch.
  static func begin(_ db: Database, epoch: String?, now: Int64) throws {
    let state = try PassState.read(db)
    let known = try Meta.text(db, .epoch)
    let isNewEpoch = epoch != nil && epoch != known
    if state.isRunning, !isNewEpoch {
      return try Meta.set(db, .passAwaits, 0)
    }
    let number = state.number + 1
    try Meta.set(db, .pass, number)
    try Meta.set(db, .passRuns, 1)
    try Meta.set(db, .passAwaits, 0)
    try Meta.set(db, .checkpoint, 0)
    // A pass that another one replaces has removed nothing: what was in step before it still counts.
    let rows = state.isRunning ? try Meta.integer(db, .passRows) ?? 0 : try inStep(db)
    try Meta.set(db, .passRows, rows)
    if isNewEpoch, let epoch {
      try Meta.set(db, .epoch, epoch)
      try Meta.set(db, .epochPass, number)
      try db.execute(sql: "UPDATE sync_record SET version = 0")
      let sequence =
        try Int64.fetchOne(db, sql: "SELECT sequence FROM sync_clock WHERE one = 1") ?? 0
      try Meta.set(db, .epochSequence, sequence)
    } else if state.isRunning, state.isOfNewEpoch {
      try Meta.set(db, .epochPass, number)
    }
    try Journal.event(db, .fullPassBegan, detail: epoch ?? known, at: now)
  }

  static func end(_ db: Database, _ context: ApplyContext, confirmed: Bool, now: Int64) throws
    -> FullPassEnd
  {
    let state = try PassState.read(db)
    guard state.isRunning else { return .removed(0) }
    let missing = try missing(db, state.number)
    let free = try missing.filter { try !Base.hasRemaining(db, $0) }
    let rows = Int(try Meta.integer(db, .passRows) ?? 0)
    let brought = "SELECT 1 FROM sync_record WHERE pass = ? LIMIT 1"
    let isEmpty = try Row.fetchOne(db, sql: brought, arguments: [state.number]) == nil
    let isTooMany = Double(free.count) > threshold * Double(max(rows, 1))
    if !confirmed, !free.isEmpty, isEmpty || isTooMany {
      if try Meta.integer(db, .passAwaits) != 1 {
        try Meta.set(db, .passAwaits, 1)
        try Journal.event(db, .fullPassAwaits, detail: "\(free.count) of \(rows)", at: now)
      }
      return .awaitsConfirmation(missing: free.count, of: rows)
    }
    let removed = try sweep(db, context, missing, state, now: now)
    try Meta.set(db, .passRuns, 0)
    try Meta.set(db, .passAwaits, 0)
    try Journal.event(db, .fullPassEnded, detail: "\(removed) removed", at: now)
    return .removed(removed)
  }

  /// Each missing record is treated as if a tombstone had come: what is unsent on it or under it holds it up.
  private static func sweep(
    _ db: Database, _ context: ApplyContext, _ missing: [RecordKey], _ state: PassState, now: Int64
  ) throws -> Int {
    try db.execute(sql: "DELETE FROM sync_held WHERE version = 0")
    let order = Dictionary(
      uniqueKeysWithValues: context.schema.entities.enumerated().map { ($1.name, $0) })
    let childrenFirst = missing.sorted { a, b in
      let (x, y) = (order[a.entity] ?? -1, order[b.entity] ?? -1)
      return x == y ? a < b : x > y
    }
    let applier = try SliceApplier(db, context, now: now)
    try applier.apply(childrenFirst.map { ServerRecord(key: $0, version: 0, presence: .deleted) })
    return applier.report.deleted
  }

  /// Rows in step: the server knows them, and nothing of theirs is unsent.
  private static func inStep(_ db: Database) throws -> Int64 {
    // A base is kept apart only for what has unsent changes, and for what is dead.
    try Int64.fetchOne(db, sql: "SELECT count(*) FROM sync_record WHERE base IS NULL") ?? 0
  }

  private static func missing(_ db: Database, _ pass: Int64) throws -> [RecordKey] {
    let rows = try Row.fetchAll(
      db, sql: "SELECT entity, id FROM sync_record WHERE pass IS NULL OR pass < ?",
      arguments: [pass])
    return rows.map { RecordKey($0[0], $0[1]) }
  }
}
