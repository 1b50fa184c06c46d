import Storage
import SyncCore

/// The long run: what starts cycles by itself.
extension SyncEngine {
    /// Syncs by itself until the task is cancelled or ``stop()`` is called: after local writes, on hints, and at
    /// least every period. May be called again when it has ended.
    /// - Throws: ``EngineError/alreadyRunning`` for a second call while it runs; a mistake in the handlers before anything runs.
    public func run() async throws(EngineError) {
        guard !isRunning else { throw .alreadyRunning }
        guard !isClosed else { return }
        try checkHandlers()
        isRunning = true
        defer { isRunning = false }
        stopping.clear()
        scheduler.trigger(.started, at: watch.milliseconds())
        await learnLastSynced()
        await withTaskGroup(of: Bool.self) { group in
            let notices = store.notices()
            group.addTask {
                for await _ in notices { await self.trigger(.localWrite) }
                return false
            }
            if let hints {
                group.addTask {
                    await self.listen(to: hints)
                    return false
                }
            }
            if let connectivity {
                group.addTask {
                    await self.follow(connectivity)
                    return false
                }
            }
            if let background {
                group.addTask {
                    await self.serve(background)
                    return false
                }
            }
            group.addTask {
                await self.loop()
                return true
            }
            group.addTask { [stopping] in
                await stopping.wait()
                return true
            }
            // The end of the store's notices, or of the hints, ends nothing else: the period still does its work.
            for await isEnd in group where isEnd { group.cancelAll() }
        }
    }

    /// The same as ``run()``, by the name that goes with ``stop()``: it returns when the engine has stopped, since nothing
    /// of it lives in a task that nobody owns. Call it in a task of the app's own.
    /// - Throws: as ``run()``.
    public func start() async throws(EngineError) { try await run() }

    /// Each handler is for an entity of the store's schema, and the only one for it.
    private func checkHandlers() throws(EngineError) {
        var seen: Set<String> = []
        for handler in handlers {
            let name = handler.schema.name
            guard store.schema[name] != nil else { throw .unknownEntity(handler: name) }
            guard seen.insert(name).inserted else { throw .secondHandler(entity: name) }
        }
    }

    /// Starts a cycle whenever the schedule has one due; in between it waits for the time, or for the schedule to change.
    private func loop() async {
        while !Task.isCancelled {
            // A pause is about what starts by itself; the user's wish does not.
            let mayStart = !isCycling && (!isPaused || scheduler.isUserWaiting)
            let next = mayStart ? scheduler.nextStart() : nil
            let now = watch.milliseconds()
            if let next, next <= now {
                _ = await serialized(scheduler.isUserWaiting ? .user : .routine)
            } else {
                await wait(for: wakeUp, next.map { .milliseconds($0 - now) })
            }
        }
    }

    /// Waits for a signal, or so long.
    func wait(for signal: Signal, _ limit: Duration?) async {
        guard let limit else { return await signal.wait() }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await signal.wait() }
            group.addTask { _ = await self.slept(limit) }
            await group.next()
            group.cancelAll()
        }
    }
}
