package mirror

import (
	"errors"

	"golang.org/x/sys/windows"
)

// noSpace recognises a full disk.
func noSpace(err error) bool { return errors.Is(err, windows.ERROR_DISK_FULL) }
