// The tests of DownloadQueue.
