// Stands in the program of the seeds between GRDB and SQLite's authorizer, and keeps back what statements read.
//
// GRDB notes for each statement which columns it reads, so that an observation of values knows what concerns it: a call for
// each column of each trigger, a third of the instructions of a seed. In the simulator nobody observes values. What
// statements write, and all that is said of transactions and schemas, comes through as ever
// (Docs/Decisions/0150-seeds-note-no-reads.md).
#define _GNU_SOURCE
#include "silent-reads.h"
#include <dlfcn.h>
#include <stdlib.h>

// As in sqlite3.h, which the system's module declares: two modules with that header would each have its types.
typedef struct sqlite3 sqlite3;
typedef int (*authorizer)(void *, int, const char *, const char *, const char *, const char *);
typedef int (*setter)(sqlite3 *, authorizer, void *);

enum { sqlite_ok = 0, sqlite_read = 20 };

struct listener {
    authorizer call;
    void *argument;
};

static int without_reads(
    void *pointer, int action, const char *a, const char *b, const char *c, const char *d) {
    const struct listener *listener = pointer;
    if (action == sqlite_read) return sqlite_ok;
    return listener->call(listener->argument, action, a, b, c, d);
}

// Weak, so that a program that has SQLite linked into it keeps SQLite's own.
__attribute__((weak)) int sqlite3_set_authorizer(sqlite3 *connection, authorizer call, void *argument) {
    setter next = (setter)dlsym(RTLD_NEXT, "sqlite3_set_authorizer");
    if (next == NULL) abort();
    if (call == NULL) return next(connection, NULL, NULL);
    // As long as the process: SQLite does not say when it lets go of it. 16 bytes for each connection.
    struct listener *listener = malloc(sizeof *listener);
    if (listener == NULL) return next(connection, call, argument);
    *listener = (struct listener){call, argument};
    return next(connection, without_reads, listener);
}
