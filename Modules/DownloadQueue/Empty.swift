// DownloadQueue
