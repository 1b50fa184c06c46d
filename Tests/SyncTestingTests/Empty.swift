// The tests of SyncTesting.
