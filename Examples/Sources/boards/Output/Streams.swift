import Foundation

/// The three streams that a program begins with.
enum Streams {
    /// Opens those that came closed. Else the next file or socket takes the place of one, and what is printed goes into it.
    ///
    /// Each is opened so that it refuses what it is for: the results that nobody can take are noticed, as on a full disk.
    static func fill() {
        for (stream, mode) in [(STDIN_FILENO, O_WRONLY), (STDOUT_FILENO, O_RDONLY), (STDERR_FILENO, O_RDONLY)]
        where fcntl(stream, F_GETFD) == -1 {
            // It takes the lowest number that is free, which is this one.
            _ = open("/dev/null", mode)
        }
    }
}
