import Foundation
import SyncTesting

/// A database file that something else wrote into while nobody had it open (PRC-14).
struct DamagedFile {
    let path: String
    let damage: FaultTape.Damage
    /// What stands in the queue: half of the pages that are damaged have some of it.
    let keys: [String]
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
            let all = Data(bytes)
            let queue = Set(keys.compactMap { all.range(of: Data($0.utf8)).map { $0.lowerBound / page } }).sorted()
            for _ in 0..<(1 + chance.below(3)) {
                let place = chance.chance(0.5) && !queue.isEmpty ? chance.pick(queue) : chance.below(bytes.count / page)
                fill(&bytes, (place * page)..<(place * page + page))
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
