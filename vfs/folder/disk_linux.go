package folder

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriting sends a part of a file on its way to the disk, without waiting.
func startWriting(f *os.File, offset, size int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, size, unix.SYNC_FILE_RANGE_WRITE)
}

// syncFile makes a file's content and size durable.
func syncFile(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// syncFolder makes the names in a folder durable.
func syncFolder(f *os.File) error { return f.Sync() }

// free is the number of bytes that may be written to the disk that holds a folder.
func free(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize) //nolint:unconvert // its type differs by system
}
