//go:build !linux

package folder

import (
	"os"
	"runtime"
)

func startWriting(*os.File, int64, int64) {}

func syncFile(f *os.File) error { return f.Sync() }

// syncFolder makes the names in a folder durable. Windows has no such thing
// for folders: it keeps names in order by itself.
func syncFolder(f *os.File) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return f.Sync()
}

func free(string) int64 { return -1 }
