internal import Hummingbird
internal import NIOCore

/// What goes with a request through the shell: Hummingbird's own, and the channel that it came over.
struct ShellContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = .init(source: source)
        channel = source.channel
    }
}
