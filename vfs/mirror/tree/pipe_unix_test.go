//go:build unix

package tree

import (
	"syscall"
	"testing"
)

func pipe(t *testing.T, name string) {
	t.Helper()
	if err := syscall.Mkfifo(name, 0o644); err != nil {
		t.Skip(err)
	}
}
