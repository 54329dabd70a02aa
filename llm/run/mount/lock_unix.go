//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package mount

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// The pauses between attempts to lock a folder.
const (
	firstPause = 200 * time.Microsecond
	longPause  = 20 * time.Millisecond
)

// lockFolder locks a folder, and waits for the end of other locks, of this process or
// another. Closing the folder unlocks it.
func lockFolder(ctx context.Context, dir *os.File) error {
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EBADF):
			return nil // some file systems have no locks
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
