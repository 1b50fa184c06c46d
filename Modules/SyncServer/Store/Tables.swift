internal import GRDB

/// The server's own tables, numbered: a step is never changed once released, only followed by another.
enum Tables {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1 accounts, records, outcomes") { db in try db.execute(sql: first) }
        migrator.registerMigration("2 outcomes in runs") { db in try db.execute(sql: second) }
        migrator.registerMigration("3 leaves by record") { db in try db.execute(sql: third) }
        return migrator
    }

    private static let first = """
        CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

        -- An account's data set: its versions are its own, so that nothing tells one of another.
        CREATE TABLE account(
            n INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            dataset TEXT NOT NULL,
            head INTEGER NOT NULL DEFAULT 0,
            oldest INTEGER NOT NULL DEFAULT 0,
            stamp INTEGER NOT NULL DEFAULT 0
        ) STRICT;

        CREATE TABLE device(
            n INTEGER PRIMARY KEY,
            account INTEGER NOT NULL,
            name TEXT NOT NULL,
            settled INTEGER NOT NULL DEFAULT 0,
            -- The highest sequence with an outcome: above it no sequence is taken.
            top INTEGER NOT NULL DEFAULT 0,
            -- Whether it has keys of REST requests, too.
            rest INTEGER NOT NULL DEFAULT 0,
            UNIQUE(account, name)
        ) STRICT;

        -- fields: what readers see. writes: where it came from. dead: through itself or a parent.
        CREATE TABLE record(
            n INTEGER PRIMARY KEY,
            account INTEGER NOT NULL,
            entity TEXT NOT NULL,
            id TEXT NOT NULL,
            version INTEGER NOT NULL,
            root INTEGER NOT NULL,
            dead INTEGER NOT NULL,
            stamp INTEGER NOT NULL,
            at INTEGER NOT NULL,
            activity INTEGER NOT NULL,
            -- The first version of the unit that gave it its version, so that no page divides one; 0 outside of units.
            unit INTEGER NOT NULL,
            fields TEXT NOT NULL,
            writes TEXT NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX record_key ON record(account, entity, id);
        CREATE UNIQUE INDEX record_version ON record(account, version) WHERE version > 0;
        CREATE INDEX record_root ON record(root, version) WHERE version > 0;
        CREATE INDEX record_dead ON record(at) WHERE dead = 1;

        CREATE TABLE link(
            parent INTEGER NOT NULL, child INTEGER NOT NULL, PRIMARY KEY(parent, child)
        ) STRICT, WITHOUT ROWID;

        -- That a record left a root's scope, for those who have not heard of it.
        CREATE TABLE leaving(
            root INTEGER NOT NULL, record INTEGER NOT NULL, version INTEGER NOT NULL, at INTEGER NOT NULL,
            PRIMARY KEY(root, record)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX leaving_version ON leaving(root, version);
        CREATE INDEX leaving_at ON leaving(at);

        -- What was decided about a change. first and second: the digest of its content.
        CREATE TABLE outcome(
            device INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            key TEXT NOT NULL,
            verdict TEXT NOT NULL,
            members TEXT NOT NULL,
            first INTEGER NOT NULL,
            second INTEGER NOT NULL,
            at INTEGER NOT NULL,
            intent TEXT,
            PRIMARY KEY(device, sequence)
        ) STRICT, WITHOUT ROWID;
        CREATE UNIQUE INDEX outcome_key ON outcome(device, key);

        -- The same for one request of REST: the whole answer.
        CREATE TABLE reply(
            device INTEGER NOT NULL,
            key TEXT NOT NULL,
            status INTEGER NOT NULL,
            etag TEXT,
            body TEXT NOT NULL,
            first INTEGER NOT NULL,
            second INTEGER NOT NULL,
            at INTEGER NOT NULL,
            PRIMARY KEY(device, key)
        ) STRICT, WITHOUT ROWID;

        -- A server with ids of its own: what a device called a record when it made it.
        CREATE TABLE alias(
            account INTEGER NOT NULL, entity TEXT NOT NULL, id TEXT NOT NULL, given TEXT NOT NULL,
            PRIMARY KEY(account, entity, id)
        ) STRICT, WITHOUT ROWID;
        """

    private static let second = """
        -- Outcomes of a device whose sequences and keys ascend; decided: each as an array of sequence, key, verdict, members,
        -- digest and intent, where there is one.
        CREATE TABLE outcome_run(
            n INTEGER PRIMARY KEY,
            device INTEGER NOT NULL,
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            low TEXT NOT NULL,
            high TEXT NOT NULL,
            at INTEGER NOT NULL,
            decided TEXT NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX outcome_run_sequence ON outcome_run(device, last);
        CREATE UNIQUE INDEX outcome_run_key ON outcome_run(device, high);
        """

    private static let third = "CREATE INDEX leaving_record ON leaving(record);"
}
