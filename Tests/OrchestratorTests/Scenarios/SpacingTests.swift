import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing
import UploadQueue

@Suite("Starts of cycles are 2 s apart, whoever asks for them: the user's wish alone goes at once")
struct SpacingTests {
    private func stand(_ stage: Stage) throws -> (port: Port, device: Device) {
        let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
        return (port, try stage.device(port))
    }

    private func gaps(_ port: Port) -> [Double] {
        let times = port.requests.map(\.seconds)
        return zip(times, times.dropFirst()).map { $1 - $0 }
    }

    @Test("twenty calls for background time, one after the other, are twenty cycles 2 s apart")
    func inARow() throws {
        try inVirtualTime { stage in
            let (port, device) = try stand(stage)
            for _ in 0..<20 { #expect(await device.engine.runOnce(deadline: .seconds(5)).end == .complete) }
            #expect(port.requests.count == 20)
            #expect(gaps(port).allSatisfy { $0 >= 1.999 })
            try await device.end()
        }
    }

    @Test("twenty at once are two: the first, and one for all that came during it", arguments: [0, 100])
    func together(milliseconds: Int) throws {
        try inVirtualTime { stage in
            let (port, device) = try stand(stage)
            port.otherwise = .slow(.milliseconds(milliseconds))
            let ends = await withTaskGroup(of: CycleEnd.self) { group in
                for _ in 0..<20 { group.addTask { await device.engine.runOnce(deadline: .seconds(5)).end } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(ends == Array(repeating: .complete, count: 20))
            #expect(port.requests.count == 2)
            #expect(gaps(port).allSatisfy { $0 >= 1.999 })
            try await device.end()
        }
    }

    @Test("the user's wish does not stand in line behind one that waits for its time: its cycle serves both")
    func wish() throws {
        try inVirtualTime { stage in
            let (port, device) = try stand(stage)
            _ = await device.engine.syncNow()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    #expect(await device.engine.runOnce(deadline: .seconds(5)).acknowledged == 1)
                    #expect(stage.seconds < 1)
                }
                try await stage.pass(.milliseconds(500))
                try await device.addBoard("b-1")
                let before = stage.seconds
                #expect(await device.engine.syncNow().acknowledged == 1)
                #expect(stage.seconds - before < 0.01)
                try await group.waitForAll()
            }
            #expect(port.requests.count == 2)
            try await device.end()
        }
    }

    @Test("a wish that the schedule is told of goes at once, too, in a run")
    func told() throws {
        try inVirtualTime { stage in
            let (port, device) = try stand(stage)
            try await stage.running(device) {
                try await stage.pass(.seconds(10))
                _ = await device.engine.syncNow()
                port.forget()
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { _ = await device.engine.runOnce(deadline: .seconds(5)) }
                    try await stage.pass(.milliseconds(500))
                    #expect(port.requests.isEmpty)
                    await device.engine.trigger(.user)
                    try await stage.pass(.milliseconds(10))
                    #expect(port.requests.count == 1)
                    try await group.waitForAll()
                }
            }
            try await device.end()
        }
    }

    @Test("time that is over before the distance is ends the call in time, without a request; the next one goes")
    func short() throws {
        try inVirtualTime { stage in
            let (port, device) = try stand(stage)
            _ = await device.engine.syncNow()
            port.forget()
            let before = stage.seconds
            #expect(await device.engine.runOnce(deadline: .seconds(1)).end == .cancelled)
            #expect(stage.seconds - before <= 1.001)
            #expect(port.requests.isEmpty)
            #expect(await device.engine.runOnce(deadline: .seconds(5)).end == .complete)
            try await device.end()
        }
    }

    @Test("a round in the background keeps the distance as well")
    func round() throws {
        try inVirtualTime { stage in
            let (port, device) = try stand(stage)
            _ = await device.engine.syncNow()
            guard case .ran(let report) = try await device.engine.backgroundRound(deadline: .seconds(20)) else {
                Issue.record("it did not run")
                return
            }
            #expect(report.end == .complete)
            #expect(gaps(port).allSatisfy { $0 >= 1.999 })
            try await device.end()
        }
    }
}
