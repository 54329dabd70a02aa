//go:build !linux

package listen

import "io/fs"

// narrow does nothing: only Linux knows the mode of a socket before it is bound.
// Elsewhere the umask of the process keeps it private until its mode is set.
func narrow(uintptr, fs.FileMode) error { return nil }
