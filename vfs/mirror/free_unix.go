//go:build linux || darwin

package mirror

import "golang.org/x/sys/unix"

// freeSpace is the number of bytes that may be written to the disk that holds a folder,
// -1 if that is unknown.
func freeSpace(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
