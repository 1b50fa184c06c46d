import SyncCore

/// Devices on which two processes of the app have one file.
extension World {
    /// Another process opens the device's files, for so long, and may stand still amid a request, for which it has the lease.
    func openSecond(_ index: Int, for milliseconds: Int64, standing: FaultTape.Standing?, isKilled: Bool) {
        let device = devices[index]
        guard device.process != nil, !device.isDead, device.second == nil else { return }
        let struck = device.hook.timesStruck
        var opened: SecondProcess?
        do {
            try staysItself(index) { opened = try device.startSecond(standing) }
        } catch {
            record.note("device \(index)'s second process did not open")
            let kind = (error as? StoreFailure)?.kind ?? .unexpected
            if !device.isDead,
                !Self.isExplained(kind, isLocked: device.isLocked, device.hook.timesStruck > struck)
            {
                record.violate("storage", "device \(index)'s second process does not open: \(error)")
            }
            return buryTheDead()
        }
        guard let second = opened else { return }
        record.cover(.secondProcess)
        record.struck("second process")
        let end = SecondProcess.Event.ends(isKilled: isKilled)
        agenda.add(.second(end, device: index, number: second.number), at: now + milliseconds)
        buryTheDead()
    }

    func perform(_ event: SecondProcess.Event, of number: Int, on index: Int) {
        let device = devices[index]
        guard let second = device.second, second.number == number, !device.isDead else { return }
        switch event {
        case .goesOn:
            guard second.stands else { return }
            if !device.secondHasLease { record.cover(.leaseTakenOver) }
            second.process.release()
            device.second?.stands = false
        case .ends(let isKilled):
            device.endSecond(killed: isKilled)
            buryTheDead()
        }
    }

    /// The second process ends before the files are exchanged, or given to another user.
    func endSecond(_ index: Int) {
        devices[index].endSecond()
        buryTheDead()
    }
}
