package listen

import (
	"io/fs"
	"syscall"
)

// narrow sets the mode that the file of a socket gets when it is bound, which the
// umask can only narrow further.
func narrow(socket uintptr, mode fs.FileMode) error {
	return syscall.Fchmod(int(socket), uint32(mode.Perm()))
}
