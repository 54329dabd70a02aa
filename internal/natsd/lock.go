package natsd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrInUse reports that another process works on the data directory.
var ErrInUse = errors.New("data directory is in use by another process")

// A dirLock keeps a data directory for one process. The operating system
// drops it with the process, however that ends.
type dirLock struct{ file *os.File }

func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("natsd: open the lock file: %w", err)
	}
	if err := lockFile(file); err != nil {
		file.Close()
		if errors.Is(err, errLocked) {
			return nil, fmt.Errorf("natsd: %s: %w", dir, ErrInUse)
		}
		return nil, fmt.Errorf("natsd: lock %s: %w", path, err)
	}
	return &dirLock{file: file}, nil
}

// release gives the directory free. The file stays: removing it would let a
// third process lock a new file while a second waits on the old one.
func (l *dirLock) release() { l.file.Close() }
