//go:build !linux

package smalldisk

import "testing"

// Run skips the test: only Linux lets all users mount file systems.
func Run(t *testing.T, _ int64, _ func(t *testing.T, d *Disk)) {
	t.Skip("no disk of our own on this system")
}

// A Disk is a small disk.
type Disk struct {
	Dir string // where it is mounted
}

// Fill takes all that is left of the disk.
func (*Disk) Fill(testing.TB) {}

// Free gives it back.
func (*Disk) Free(testing.TB) {}
