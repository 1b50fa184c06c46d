import SyncCore

/// A new entity as somebody would add it to `Entities.swift`: this, and nothing anywhere else. `NewEntityTests` counts it.
let sticker = EntitySchema(
    "sticker",
    fields: [
        .parent("idCard", "card"), .text("image"), .real("rotate"), .json("tags", rule: .union), .date("date"),
    ])
