package listen

import (
	"io/fs"
	"syscall"
)

// narrow sets what the file of a socket will let others do once it is bound, which
// the umask can only take from.
func narrow(socket uintptr, mode fs.FileMode) error {
	return syscall.Fchmod(int(socket), uint32(mode.Perm()))
}
