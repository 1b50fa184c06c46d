// The tests of SyncCore.
