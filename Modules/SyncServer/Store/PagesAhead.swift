internal import SyncCore

/// Pages that are read before they are asked for, while a device applies the one in front: at most one for each device.
///
/// **Invariant.** What ``page(for:of:at:now:)`` gives is what would be read from the store now: it was read for the very same
/// question, and nothing that a page may show was written in between (``ServerStore/Moment``). So an answer is made of the
/// same bytes with it as without it, and nobody can tell but by the time that it takes. A device is not told anything
/// that it has not asked for, and asks for nothing that it has not applied up to.
///
/// A plain value: it reads no clock and no file. Old pages go by the time that callers say, and the oldest where there are
/// too many, or too many bytes.
struct PagesAhead {
    /// Who asks. The account's row, not its name: names that are other bytes may be equal as texts.
    struct Reader: Hashable {
        var account: Int64
        var device: String
    }

    /// All that a page depends on beside what the account holds.
    struct Question: Sendable {
        /// Of a request without scopes.
        var checkpoint: Int64
        var scopes: [SyncRequest.Scope]?
        var limit: Int

        /// What is asked next by who has applied a page up to this version.
        func next(after version: Int64) -> Question {
            let scopes = scopes?.map { SyncRequest.Scope(name: $0.name, checkpoint: max($0.checkpoint, version)) }
            return Question(checkpoint: scopes == nil ? version : checkpoint, scopes: scopes, limit: limit)
        }

        /// Names are compared as bytes: texts are equal in Swift whose accents are composed otherwise, and the file tells
        /// them apart.
        func isSame(as other: Question) -> Bool {
            guard checkpoint == other.checkpoint, limit == other.limit, scopes?.count == other.scopes?.count else {
                return false
            }
            return zip(scopes ?? [], other.scopes ?? []).allSatisfy { mine, theirs in
                mine.checkpoint == theirs.checkpoint && mine.name.utf8.elementsEqual(theirs.name.utf8)
            }
        }

        fileprivate var bytes: Int { (scopes ?? []).reduce(64) { $0 + $1.name.utf8.count + 32 } }
    }

    /// What is to be read.
    struct Wish {
        var account: String
        var question: Question
        fileprivate var number: Int
        fileprivate var reader: Reader
        /// The account's.
        var row: Int64 { reader.account }
    }

    /// Milliseconds after which nobody is expected any more.
    static let lifetime: Int64 = 10_000
    static let mostPages = 256
    private let mostBytes: Int

    private struct Entry {
        var account: String
        var question: Question
        /// In the order in which they came.
        var number: Int
        var at: Int64
        /// Nothing, as long as it is only wished for.
        var page: Page?
        var moment: ServerStore.Moment?
        var bytes: Int
    }

    private var entries: [Reader: Entry] = [:]
    private var bytes = 0
    private var last = 0
    private var wishes = 0

    init(mostBytes: Int = 64 << 20) { self.mostBytes = mostBytes }

    /// Whether there is something to read.
    var isWanted: Bool { wishes > 0 }
    /// How many bytes are held.
    var heldBytes: Int { bytes }

    /// A page with more behind it leaves for a reader, who will likely ask this next.
    mutating func expect(_ question: Question, of account: String, by reader: Reader, now: Int64) {
        forget(reader)
        forgetOld(now: now)
        last += 1
        add(Entry(account: account, question: question, number: last, at: now, bytes: question.bytes), for: reader)
    }

    /// The oldest of what is to be read.
    func nextWish() -> Wish? {
        let oldest = entries.lazy.filter { $0.value.page == nil }.min { $0.value.number < $1.value.number }
        return oldest.map {
            Wish(account: $0.value.account, question: $0.value.question, number: $0.value.number, reader: $0.key)
        }
    }

    /// What was wished for is read, as of this moment.
    mutating func put(_ page: Page, at moment: ServerStore.Moment, for wish: Wish) {
        guard var entry = entries[wish.reader], entry.number == wish.number else { return }
        forget(wish.reader)
        entry.page = page
        entry.moment = moment
        entry.bytes += page.tail.count
        add(entry, for: wish.reader)
    }

    /// The end of the answer that the page stands in, as a shell sends it.
    mutating func put(packed: [UInt8], for wish: Wish) {
        guard var entry = entries[wish.reader], entry.number == wish.number, entry.page != nil else { return }
        forget(wish.reader)
        entry.page?.packed = packed
        entry.bytes += packed.count
        add(entry, for: wish.reader)
    }

    /// It cannot be read.
    mutating func drop(_ wish: Wish) {
        if entries[wish.reader]?.number == wish.number { forget(wish.reader) }
    }

    /// The page that was read for this question, where it still is what would be read.
    func page(for question: Question, of reader: Reader, at moment: ServerStore.Moment, now: Int64) -> Page? {
        guard let entry = entries[reader], let page = entry.page, entry.moment == moment,
            entry.question.isSame(as: question), !isOld(entry, now)
        else { return nil }
        return page
    }

    /// The reader has asked something.
    mutating func forget(_ reader: Reader) {
        guard let entry = entries.removeValue(forKey: reader) else { return }
        bytes -= entry.bytes
        if entry.page == nil { wishes -= 1 }
    }

    /// Lets go of what nobody came for.
    mutating func forgetOld(now: Int64) {
        for (reader, entry) in entries where isOld(entry, now) { forget(reader) }  // any order
    }

    /// A clock that was set back makes old, too.
    private func isOld(_ entry: Entry, _ now: Int64) -> Bool {
        now < entry.at || now - entry.at > Self.lifetime
    }

    private mutating func add(_ entry: Entry, for reader: Reader) {
        guard entry.bytes <= mostBytes else { return }
        while bytes + entry.bytes > mostBytes || entries.count >= Self.mostPages, let oldest {
            forget(oldest)
        }
        entries[reader] = entry
        bytes += entry.bytes
        if entry.page == nil { wishes += 1 }
    }

    private var oldest: Reader? { entries.min { $0.value.number < $1.value.number }?.key }
}
