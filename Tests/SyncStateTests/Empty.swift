// The tests of SyncState.
