public import GRDB

/// Derived data: rows of the app's own tables that follow from records (an aggregate, a view, a state folded from a history).
///
/// The app declares what it depends on; the store rebuilds what a change touched, and only that, in the very transaction
/// that made the change. Derived rows are no records: nobody sends them, and they can be thrown away.
public struct SnapshotBuilder: Sendable {
    /// What a builder reads, and how a touched record leads to what is rebuilt.
    public struct Dependency: Sendable, Hashable {
        enum Source: Sendable, Hashable {
            case entity(String)
            case snapshot(String)
        }

        let source: Source
        /// Reference fields from the source to the builder's subject, one after the other; none where they are the same.
        let path: [String]

        /// Records of an entity; `path` names the reference fields that lead from one to the subject
        /// (`["idList", "idBoard"]` from a card to its board). What it goes through counts as well: a list that moves touches
        /// both boards.
        public static func entity(_ name: String, _ path: [String] = []) -> Dependency {
            Dependency(source: .entity(name), path: path)
        }

        /// What another builder made; `path` leads from that one's subject to this one's.
        public static func snapshot(_ name: String, _ path: [String] = []) -> Dependency {
            Dependency(source: .snapshot(name), path: path)
        }
    }

    /// The builder's name, one of its kind.
    public let name: String
    /// The entity for each of whose records there is one piece of derived data.
    public let subject: String
    /// Raised when the builder makes something else of the same records: everything is rebuilt when the store opens.
    public let version: Int
    public let dependencies: [Dependency]
    let setUp: @Sendable (Database) throws -> Void
    let rebuild: @Sendable (Database, [String]) throws -> Void

    /// - Parameters:
    ///   - setUp: makes the builder's tables, empty, whatever an earlier version left; runs whenever everything is made anew.
    ///   - rebuild: makes the derived rows of these subjects anew, and takes away those of subjects that are no more. It
    ///     sees the database only, inside the transaction; what it throws undoes its own work and nothing else.
    public init(
        _ name: String, subject: String, version: Int = 1, dependsOn dependencies: [Dependency],
        setUp: @escaping @Sendable (Database) throws -> Void,
        rebuild: @escaping @Sendable (_ db: Database, _ ids: [String]) throws -> Void
    ) {
        self.name = name
        self.subject = subject
        self.version = version
        self.dependencies = dependencies
        self.setUp = setUp
        self.rebuild = rebuild
    }
}
