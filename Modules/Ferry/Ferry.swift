// The whole framework with one import.
@_exported import DeltaCalculator
@_exported import DownloadQueue
@_exported import Orchestrator
@_exported import Storage
@_exported import SyncCore
@_exported import SyncState
@_exported import Transport
@_exported import UploadQueue
