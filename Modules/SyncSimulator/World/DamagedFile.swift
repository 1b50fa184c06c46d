import Foundation
import SyncTesting

/// A database file that something else wrote into while nobody had it open (PRC-14).
struct DamagedFile {
    let path: String
    let damage: FaultTape.Damage
    var chance: SeededGenerator

    /// - Returns: whether all that was in it can be read still, by who knows how.
    mutating func write() throws -> Bool {
        let url = URL(fileURLWithPath: path)
        var bytes = [UInt8](try Data(contentsOf: url))
        let page = bytes.count > 18 ? Int(bytes[16]) << 8 | Int(bytes[17]) : 0
        guard page >= 512, bytes.count >= 2 * page else { return false }
        switch damage {
        case .header: fill(&bytes, 0..<100)
        case .pages:
            for _ in 0..<(1 + chance.below(3)) {
                let start = chance.below(bytes.count / page) * page
                fill(&bytes, start..<(start + page))
            }
        case .cut: bytes.removeLast(bytes.count - (1 + chance.below(bytes.count / page - 1)) * page)
        case .rubbish: fill(&bytes, 0..<bytes.count)
        case .gone:
            try FileManager.default.removeItem(at: url)
            return false
        }
        // In place: another inode would be another file.
        try Data(bytes).write(to: url, options: [])
        return damage == .header
    }

    private mutating func fill(_ bytes: inout [UInt8], _ range: Range<Int>) {
        for place in range { bytes[place] = UInt8(truncatingIfNeeded: chance.next() >> 24) }
    }
}
