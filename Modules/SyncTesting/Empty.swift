// SyncTesting
