import SyncCore

extension InMemoryChangeLog {
    /// This log as a subject of ``ChangeLogContract``: it is told the values before each write, as a table would.
    public nonisolated func subject() -> ChangeLogSubject {
        ChangeLogSubject(
            log: self,
            write: { writes, isUnit in await self.record(writes, isUnit: isUnit) },
            crash: {
                await self.crash()
                return self
            })
    }

    private func record(_ writes: [LocalWrite], isUnit: Bool) {
        write(
            writes.map { local in
                var deltas: [String: FieldDelta] = [:]
                for (name, value) in local.values {
                    let old = local.operation == .create ? nil : rows[local.record]?[name] ?? .null
                    deltas[name] = FieldDelta(old: old, new: value)
                }
                switch local.operation {
                case .create: rows[local.record] = local.values
                case .update: rows[local.record, default: [:]].merge(local.values) { $1 }
                case .delete: rows[local.record] = nil
                }
                return Write(local.operation, local.record, deltas)
            }, isUnit: isUnit)
    }
}
