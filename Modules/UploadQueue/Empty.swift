// UploadQueue
