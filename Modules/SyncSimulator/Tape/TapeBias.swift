/// What seeds have more of than usual, so that what is rare in all of them meets in few.
public enum TapeBias: String, Sendable, Hashable, CaseIterable {
    /// Statuses that set changes aside, lost answers before them, and users who try again what was set aside.
    case asides
    /// Records that are made anew, moved, deleted and taken back.
    case churn
    /// Servers and devices that are restored, files that are copied, power that goes, tombstones that are forgotten.
    case histories
    /// Users who sign out and in, others who sign in, tokens that expire, apps that are updated.
    case accounts
    /// Several processes with one file, that are killed at any statement, and disks that fail.
    case processes

    /// Of which random numbers what comes at times is drawn (``FaultTape/more(of:_:_:_:)``).
    var stream: RandomStream? {
        switch self {
        case .asides, .churn: nil
        case .histories: .histories
        case .accounts: .moreAccounts
        case .processes: .moreProcesses
        }
    }

    /// What a request is answered with instead of the server's answer, each as likely as it stands here.
    var statuses: [Int] {
        switch self {
        case .histories, .accounts, .processes: [503, 500, 429, 408, 502, 413, 400, 404]
        case .asides: [413, 400, 404, 413, 400, 404, 503, 413]
        case .churn: [503, 500, 413, 408, 502, 413, 400, 404]
        }
    }

    /// Faults of requests that come to those of the seed, by their places on the menu.
    var faults: [Int] {
        switch self {
        case .histories, .accounts, .processes: [2]
        case .asides: [5, 5, 2, 2]
        case .churn: [2, 2, 6, 5]
        }
    }

    /// How many of a hundred steps are which, as ``WorkloadTape`` has it.
    var weights: [Int] {
        switch self {
        case .histories, .accounts, .processes: [6, 22, 32, 6, 8, 10, 2, 4, 4, 4, 2]
        case .asides: [3, 20, 36, 6, 5, 10, 2, 4, 3, 8, 3]
        case .churn: [9, 18, 26, 9, 11, 13, 2, 3, 9, 6, 3]
        }
    }
}
