import SyncCore

/// The declared builders, checked and in an order in which each comes behind what it depends on: a pure value.
struct SnapshotPlan: Sendable {
    /// One step from a record to the record that a field of it names.
    struct Step: Sendable, Hashable {
        var entity: EntitySchema
        var field: FieldSchema
    }

    /// A dependency with its path looked up in the schema.
    struct Link: Sendable {
        var source: SnapshotBuilder.Dependency.Source
        var steps: [Step]

        /// The entities whose records it goes through, each with the steps from there: one that moves takes along what leads
        /// through it. The source is none of them, unless it is another builder, whose subject's records move like any.
        var through: [(entity: String, steps: ArraySlice<Step>)] {
            var through = steps.indices.map { (steps[$0].entity.name, steps[$0...]) }
            if case .entity = source, !through.isEmpty { through.removeFirst() }
            return through
        }
    }

    struct Planned: Sendable {
        var builder: SnapshotBuilder
        var links: [Link]

        /// Whether it reads what one of these builders made.
        func depends(on names: Set<String>) -> Bool {
            !names.isEmpty
                && links.contains { if case .snapshot(let name) = $0.source { names.contains(name) } else { false } }
        }
    }

    let schema: Schema
    let planned: [Planned]
    /// Entities that any builder reads, or goes through.
    let sources: Set<String>

    /// The reference fields by which any of them comes from one record to another.
    var followed: Set<Step> { Set(planned.flatMap(\.links).flatMap(\.steps)) }

    var isEmpty: Bool { planned.isEmpty }

    /// - Throws: ``StoreFailure`` (`invalid`), in words that say what to write instead.
    init(_ builders: [SnapshotBuilder], _ schema: Schema) throws(StoreFailure) {
        var byName: [String: SnapshotBuilder] = [:]
        for builder in builders {
            guard byName.updateValue(builder, forKey: builder.name) == nil else {
                throw Self.mistake("two snapshots are named “\(builder.name)”; give each a name of its own")
            }
            guard schema[builder.subject] != nil else {
                throw Self.mistake(
                    "the snapshot “\(builder.name)” is about “\(builder.subject)”, which is not declared; name an entity"
                )
            }
        }
        var planned: [Planned] = []
        for builder in try Self.ordered(builders, byName) {
            var links: [Link] = []
            for dependency in builder.dependencies { links.append(try Self.link(dependency, builder, byName, schema)) }
            planned.append(Planned(builder: builder, links: links))
        }
        self.schema = schema
        self.planned = planned
        let links = planned.flatMap(\.links)
        sources = Set(links.compactMap { if case .entity(let name) = $0.source { name } else { nil } })
            .union(links.flatMap(\.through).map(\.entity))
    }

    private static func mistake(_ words: String) -> StoreFailure {
        StoreFailure(kind: .invalid, message: words.prefix(1).uppercased() + words.dropFirst() + ".")
    }

    private static func ordered(
        _ builders: [SnapshotBuilder], _ byName: [String: SnapshotBuilder]
    ) throws(StoreFailure) -> [SnapshotBuilder] {
        var ordered: [SnapshotBuilder] = []
        var placed: Set<String> = []
        var rest = builders
        while !rest.isEmpty {
            var ready: [SnapshotBuilder] = []
            for builder in rest {
                var isReady = true
                for case .snapshot(let name) in builder.dependencies.map(\.source) {
                    guard byName[name] != nil else {
                        throw mistake(
                            "the snapshot “\(builder.name)” depends on “\(name)”, which is not declared; declare it, or leave it out"
                        )
                    }
                    if !placed.contains(name) { isReady = false }
                }
                if isReady { ready.append(builder) }
            }
            guard !ready.isEmpty else {
                let names = rest.map(\.name).joined(separator: ", ")
                throw mistake(
                    "the snapshots \(names) depend on each other in a circle; let one of them read entities instead")
            }
            ordered += ready
            placed.formUnion(ready.map(\.name))
            rest.removeAll { placed.contains($0.name) }
        }
        return ordered
    }

    private static func link(
        _ dependency: SnapshotBuilder.Dependency, _ builder: SnapshotBuilder, _ byName: [String: SnapshotBuilder],
        _ schema: Schema
    ) throws(StoreFailure) -> Link {
        let start: String =
            switch dependency.source {
            case .entity(let name): name
            case .snapshot(let name): byName[name]?.subject ?? name
            }
        guard var entity = schema[start] else {
            throw mistake("the snapshot “\(builder.name)” depends on “\(start)”, which is not declared; name an entity")
        }
        var steps: [Step] = []
        for name in dependency.path {
            guard let field = entity.field(name), let target = field.reference?.entity, let next = schema[target] else {
                throw mistake(
                    "the snapshot “\(builder.name)” goes from “\(entity.name)” by “\(name)”, which refers to nothing; "
                        + "name a parent or reference field")
            }
            steps.append(Step(entity: entity, field: field))
            entity = next
        }
        guard entity.name == builder.subject else {
            throw mistake(
                "the snapshot “\(builder.name)” is about “\(builder.subject)”, but its dependency on “\(start)” leads to "
                    + "“\(entity.name)”; say the fields that lead there")
        }
        return Link(source: dependency.source, steps: steps)
    }
}
