import HTTPTypes
import Logging

/// One line for each call: what was asked, what came, how long it took. No header, body, query or token is logged.
struct LoggingCaller: Caller {
    let logger: Logger
    let next: any Caller

    func call(_ call: Call, watch: Watch) async throws(HTTPFailure) -> Answer {
        let start = watch.now
        var metadata: Logger.Metadata = [
            "request": "\(call.id)", "method": "\(call.request.method.rawValue)",
            "path": "\((call.request.path ?? "/").prefix { $0 != "?" })",
        ]
        do throws(HTTPFailure) {
            let answer = try await next.call(call, watch: watch)
            metadata["status"] = "\(answer.status)"
            metadata["sent"] = "\(answer.bytesSent)"
            metadata["received"] = "\(answer.bytesReceived)"
            metadata["seconds"] = "\((watch.now - start).inSeconds)"
            logger.log(level: answer.status < 400 ? .debug : .info, "answered", metadata: metadata)
            return answer
        } catch {
            metadata["failure"] = "\(error.kind)"
            metadata["seconds"] = "\((watch.now - start).inSeconds)"
            logger.log(level: error.kind == .cancelled ? .debug : .info, "no answer", metadata: metadata)
            throw error
        }
    }
}
