//go:build unix

package parked_test

import (
	"syscall"
	"time"
)

// processorTime is the time that the process has used of all processors.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
