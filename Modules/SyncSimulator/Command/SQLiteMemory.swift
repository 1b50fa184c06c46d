internal import CSQLiteMemory

/// How SQLite allocates in a program that does nothing but run seeds.
enum SQLiteMemory {
    /// SQLite counts every allocation under one lock of the process, for which two workers wait more than they work; and
    /// compiling the triggers of thousands of short-lived connections is mostly small allocations.
    ///
    /// Before SQLite is used for the first time. Afterwards it refuses, and goes on as it was: slower, and no less right.
    static func set() {
        _ = ferry_sqlite_count_memory(0)
        _ = ferry_sqlite_lookaside(1200, 200)
    }
}
