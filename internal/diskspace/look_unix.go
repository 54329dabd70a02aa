//go:build linux || darwin || freebsd

package diskspace

import "golang.org/x/sys/unix"

// look asks for the room that is left to users other than root.
func look(folder string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return Disk{}, err
	}
	block := int64(s.Bsize) //nolint:unconvert // its type differs by system
	return Disk{Free: int64(s.Bavail) * block, Size: int64(s.Blocks) * block}, nil
}
