#ifndef FERRY_CSQLITEMEMORY_SHIM_H
#define FERRY_CSQLITEMEMORY_SHIM_H

/// SQLite's settings of a whole process take a variable number of arguments, which Swift does not import. Declared here,
/// as in sqlite3.h, since two modules with that header would each have its types.
int sqlite3_config(int option, ...);

/// SQLITE_CONFIG_MEMSTATUS: whether SQLite counts what it allocates.
static inline int ferry_sqlite_count_memory(int counts) {
    return sqlite3_config(9, counts);
}

/// SQLITE_CONFIG_LOOKASIDE: the slots that each connection keeps for small allocations.
static inline int ferry_sqlite_lookaside(int size, int slots) {
    return sqlite3_config(13, size, slots);
}

#endif
