/// Whether an open store still works on the file that stands under its path, and on a sound one.
///
/// A store that does not is to be opened anew: what it writes otherwise stands in a file that nobody opens again.
public enum FileStanding: Sendable, Hashable {
    /// The file is the one that was opened.
    case inPlace
    /// Another file stands there, or none: somebody moved, removed or restored it, or another process found it corrupt and moved it
    /// aside.
    case replaced
    /// An operation of this or another process found the file corrupt; the next opening looks it through (PRC-14).
    case foundCorrupt
}
