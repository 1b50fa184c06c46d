// The tests of SyncSimulator.
