//go:build unix

package natsd

import (
	"os"

	"golang.org/x/sys/unix"
)

var errLocked error = unix.EWOULDBLOCK

func lockFile(f *os.File) error {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}
