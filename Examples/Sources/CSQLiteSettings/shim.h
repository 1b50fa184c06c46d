#ifndef CSQLITESETTINGS_SHIM_H
#define CSQLITESETTINGS_SHIM_H

/// SQLite's settings of a whole process take a variable number of arguments, which Swift does not import. Declared here,
/// as in sqlite3.h, since two modules with that header would each have its types.
int sqlite3_config(int option, ...);

/// SQLITE_CONFIG_MEMSTATUS: whether SQLite counts what it allocates.
static inline int boards_sqlite_count_memory(int counts) {
    return sqlite3_config(9, counts);
}

#endif
