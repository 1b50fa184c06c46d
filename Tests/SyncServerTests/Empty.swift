// The tests of SyncServer.
