package evidence

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData writes to disk the content of a file and the metadata needed to read it again,
// not its times.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
