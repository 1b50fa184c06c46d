// SyncState
