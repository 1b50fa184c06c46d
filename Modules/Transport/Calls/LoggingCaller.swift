import HTTPTypes
import Logging

/// One line for each call: what was asked, what came, how long it took. No header, body, query or token is logged.
struct LoggingCaller: Caller {
    let logger: Logger
    let next: any Caller

    func call(_ call: Call, watch: Watch) async throws(HTTPFailure) -> Answer {
        let start = watch.now
        do throws(HTTPFailure) {
            let answer = try await next.call(call, watch: watch)
            log("answered", answer.status < 400 ? .debug : .info, call, since: start, watch) {
                [
                    "status": "\(answer.status)", "sent": "\(answer.bytesSent)",
                    "received": "\(answer.bytesReceived)",
                ]
            }
            return answer
        } catch {
            log("no answer", error.kind == .cancelled ? .debug : .info, call, since: start, watch) {
                ["failure": "\(error.kind)"]
            }
            throw error
        }
    }

    /// A line costs more than many a step of a call, so it is made only for a log that keeps it.
    private func log(
        _ message: Logger.Message, _ level: Logger.Level, _ call: Call, since start: Duration, _ watch: Watch,
        _ outcome: () -> Logger.Metadata
    ) {
        guard logger.logLevel <= level else { return }
        var metadata = outcome()
        metadata["request"] = "\(call.id)"
        metadata["method"] = "\(call.request.method.rawValue)"
        metadata["path"] = "\((call.request.path ?? "/").prefix { $0 != "?" })"
        metadata["seconds"] = "\((watch.now - start).inSeconds)"
        logger.log(level: level, message, metadata: metadata)
    }
}
