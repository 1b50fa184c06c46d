/// What a request is for, by its path; the name under which it is counted and logged.
enum RouteName: String, Sendable, CaseIterable {
    case sync = "/api/sync"
    case events = "/api/events"
    case records = "/1"
    case health = "/health"
    case metrics = "/metrics"
    case unknown = "other"

    init(path: some StringProtocol) {
        switch path {
        case "/api/sync": self = .sync
        case "/api/events": self = .events
        case "/health": self = .health
        case "/metrics": self = .metrics
        default: self = path.hasPrefix("/1/") ? .records : .unknown
        }
    }

    /// The methods that are served, for `Allow`; nil where the store decides, or nothing is served.
    var methods: [String]? {
        switch self {
        case .sync: ["POST"]
        case .events: ["GET"]
        case .health, .metrics: ["GET", "HEAD"]
        case .records, .unknown: nil
        }
    }
}
