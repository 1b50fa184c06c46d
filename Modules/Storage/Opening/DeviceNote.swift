import Foundation

/// What is noted beside the file of the device that it is, so that an older copy of the file is noticed (PRC-15, PRC-19).
///
/// `<path>-device` has two lines, of fixed places: how often the file was opened, and the device id with the highest sequence
/// that it sent. A file that was opened less often, or that has not given that sequence yet, is an older one: restored,
/// or without its `-wal`. The first line tells of copies that were made before the last opening, the second of those that were
/// made since, where it matters: no sequence may be given twice once the server knows it.
///
/// Nothing is synced: what a power loss takes is told by ``SystemStart``. A note that cannot be written or read only makes
/// an older copy harder to notice.
struct DeviceNote {
    let path: String

    /// A device, and a sequence of its own.
    struct Sent: Equatable {
        var device: String
        var sequence: Int64
    }

    /// So many digits has each number, so that a line is one write at its place, and no process undoes another's line.
    private static let digits = 20
    /// No file is opened so often, and no device makes so many changes: a greater number is damage.
    private static let greatest: Int64 = 1 << 53

    /// - Parameter database: the path of the database.
    init(database: String) { path = database + "-device" }

    /// How often the file was opened, and what it sent; `nil` where there is none that can be read.
    func read() -> (openings: Int64?, sent: Sent?) {
        guard let data = FileManager.default.contents(atPath: path) else { return (nil, nil) }
        let lines = String(decoding: data, as: UTF8.self).split(separator: "\n")
        let words = lines.dropFirst().first?.split(separator: " ") ?? []
        let sent = words.count == 2 ? Self.number(words[1]).map { Sent(device: String(words[0]), sequence: $0) } : nil
        return (lines.first.flatMap(Self.number), sent)
    }

    private static func number(_ text: Substring) -> Int64? {
        guard let number = Int64(text), (0...greatest).contains(number) else { return nil }
        return number
    }

    /// Notes the number of openings after the transaction that counted it.
    func note(openings: Int64) {
        guard openings > read().openings ?? 0 else { return }
        put(Self.padded(openings) + "\n", at: 0)
    }

    /// Notes a claim that stands, before it is sent.
    func note(_ sent: Sent) {
        put("\(sent.device) \(Self.padded(sent.sequence))\n", at: Self.digits + 1)
    }

    private static func padded(_ number: Int64) -> String {
        let text = String(number)
        return String(repeating: "0", count: digits - text.count) + text
    }

    private func put(_ line: String, at offset: Int) {
        let file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
        guard file >= 0 else { return }
        _ = pwrite(file, line, line.utf8.count, off_t(offset))
        _ = close(file)
    }
}
