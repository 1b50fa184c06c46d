import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing
import UploadQueue

/// Floors of the queue that are over by the wall clock, while nothing may go all the same.
@Suite struct PastFloorTests {
    @Test("SCH-08 after a jump of the wall clock over a verdict's floor, pulls go on by the period, not every 2 s")
    func jumped() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            try await stage.running(device) {
                try await stage.pass(.seconds(5))
                port.next(.retryLater(86_400))
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(5))
                #expect(port.requests.last?.changes.count == 1)
                stage.wall.advance(milliseconds: 2 * 86_400_000)
                try await stage.pass(.seconds(40))
                port.forget()
                try await stage.pass(.seconds(600))
                #expect((15...25).contains(port.requests.count), "\(port.requests.count) requests in ten minutes")
                #expect(port.requests.flatMap(\.changes).isEmpty)
            }
            try await device.end()
        }
    }

    @Test("SCH-08 a paused queue whose floor is over makes no cycle every 2 s, and goes on when it is resumed")
    func paused() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            try await stage.running(device) {
                try await stage.pass(.seconds(5))
                port.next(.fail(.timedOut))
                try await device.addBoard("b-1")
                try await stage.pass(.milliseconds(400))
                await device.engine.uploads.pause()
                try await stage.pass(.seconds(60))
                port.forget()
                try await stage.pass(.seconds(600))
                #expect((15...25).contains(port.requests.count), "\(port.requests.count) requests in ten minutes")
                #expect(port.requests.flatMap(\.changes).isEmpty)
                await device.engine.uploads.resume()
                try await stage.pass(.seconds(40))
                #expect(try await device.store.summary().hasWork == false)
            }
            try await device.end()
        }
    }

    @Test("A floor that is over when a cycle ends, and was not when it began, is looked at again at once")
    func overMeanwhile() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            try await stage.running(device) {
                try await stage.pass(.seconds(5))
                port.next(.retryLater(20))
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(10))
                // The period's cycle begins before the floor, and lasts past it.
                port.next(.slow(.seconds(30)))
                await device.engine.trigger(.hint)
                try await stage.pass(.seconds(32))
                #expect(try await device.store.summary().hasWork == false)
            }
            try await device.end()
        }
    }
}
