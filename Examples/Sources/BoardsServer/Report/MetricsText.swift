/// The server's figures in Prometheus' text format, version 0.0.4. Names of accounts and records never stand here.
struct MetricsText {
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    private(set) var text = ""

    init(_ reading: ServerVitals.Reading, memory: Int?, uptime: Double) {
        requests(reading.tables)
        durations(reading.tables)
        let problems = reading.tables.problems.sorted { $0.key < $1.key }.map { (#"{code="\#($0.key)"}"#, $0.value) }
        family("boards_problems_total", "counter", "Refusals by the contract's code.", problems)
        let single: [(name: String, kind: String, help: String, value: Int?)] = [
            ("boards_connections", "gauge", "Open connections.", reading.connections),
            ("boards_connections_total", "counter", "Connections ever taken.", reading.connectionsEver),
            ("boards_requests_in_work", "gauge", "Requests that the store is asked for.", reading.inWork),
            ("boards_held_request_bytes", "gauge", "Bytes of requests not decided yet.", reading.heldRequests),
            ("boards_held_answer_bytes", "gauge", "Bytes of answers not taken yet.", reading.heldAnswers),
            ("boards_commits_total", "counter", "Commits told to event streams.", reading.tables.commits),
            ("boards_event_streams", "gauge", "Open event streams.", reading.streams),
            ("boards_events_sent_total", "counter", "Events sent to streams.", reading.eventsSent),
            (
                "boards_event_streams_dropped_total", "counter", "Streams whose reader was too slow.",
                reading.streamsDropped
            ),
            ("boards_tokens", "gauge", "Tokens of the tokens file.", reading.tables.tokens),
            ("process_resident_memory_bytes", "gauge", "Memory of the process.", memory),
        ]
        for one in single {
            if let value = one.value { family(one.name, one.kind, one.help, [("", value)]) }
        }
        head("boards_uptime_seconds", "gauge", "Since the server began.")
        text += "boards_uptime_seconds \(uptime)\n"
    }

    private mutating func head(_ name: String, _ kind: String, _ help: String) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind)\n"
    }

    private mutating func family(_ name: String, _ kind: String, _ help: String, _ samples: [(String, Int)]) {
        head(name, kind, help)
        for (labels, value) in samples { text += "\(name)\(labels) \(value)\n" }
    }

    private mutating func requests(_ tables: ServerVitals.Tables) {
        let samples = RouteName.allCases.flatMap { route in
            (tables.requests[route] ?? [:]).sorted { $0.key < $1.key }
                .map { (#"{route="\#(route.rawValue)",status="\#($0.key)"}"#, $0.value) }
        }
        family("boards_requests_total", "counter", "Answers by route and status.", samples)
    }

    private mutating func durations(_ tables: ServerVitals.Tables) {
        let name = "boards_request_duration_seconds"
        head(name, "histogram", "From the complete header fields to the answer.")
        for route in RouteName.allCases {
            guard let durations = tables.durations[route] else { continue }
            var below = 0
            for (bound, count) in zip(ServerVitals.bounds, durations.buckets) {
                below += count
                text += #"\#(name)_bucket{route="\#(route.rawValue)",le="\#(bound)"} \#(below)"# + "\n"
            }
            text += #"\#(name)_bucket{route="\#(route.rawValue)",le="+Inf"} \#(durations.count)"# + "\n"
            text += #"\#(name)_sum{route="\#(route.rawValue)"} \#(durations.sum)"# + "\n"
            text += #"\#(name)_count{route="\#(route.rawValue)"} \#(durations.count)"# + "\n"
        }
    }
}
