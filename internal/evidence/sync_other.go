//go:build !linux

package evidence

import "os"

// syncData writes to disk what is in a file.
func syncData(f *os.File) error { return f.Sync() }
