// SyncSimulator
