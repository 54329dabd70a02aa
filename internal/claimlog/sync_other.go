//go:build !linux

package claimlog

import "os"

// syncData writes to disk what is in a file.
func syncData(f *os.File) error { return f.Sync() }
