//go:build unix

package gate

import "syscall"

// Descriptors is the number of descriptors that the process may have.
func Descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return unlimited
	}
	if uint64(limit.Cur) > unlimited { //nolint:unconvert // it is signed on some systems
		return unlimited
	}
	return int(limit.Cur)
}
