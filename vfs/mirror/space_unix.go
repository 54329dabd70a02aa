//go:build unix

package mirror

import (
	"errors"

	"golang.org/x/sys/unix"
)

// noSpace recognises a full disk.
func noSpace(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
