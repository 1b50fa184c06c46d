// The tests of UploadQueue.
