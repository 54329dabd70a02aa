//go:build !linux

package evidence

import "os"

// syncData writes the content of a file to disk.
func syncData(f *os.File) error { return f.Sync() }
