package gate

import (
	"fmt"
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// The kernel's table of the process's descriptors has the room for numbers up to
// tableRoom, as far as this package knows.
var (
	tableRoom  atomic.Int64
	tableGrows atomic.Bool
)

const leastTable = 4096 // 32 KiB of the kernel's memory

// Opened has the kernel's table of descriptors grow in time, when a descriptor has been
// opened whose number is in its upper half. In a process with several threads whoever
// opens the one that does not fit waits until no processor looks at the old table any
// more, some ten milliseconds, six times until there are 5 000. So the table
// grows before that, in a goroutine that nobody waits for.
func Opened(fd int) {
	room := tableRoom.Load()
	if int64(fd) < room/2 || !tableGrows.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer tableGrows.Store(false)
		_ = Reserve(int(max(leastTable, 4*room))) // without it descriptors are opened all the same, later
	}()
}

// Reserve has the kernel's table of descriptors hold n, or as many as the process may
// have.
func Reserve(n int) error {
	most := Descriptors()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	defer unix.Close(fd)
	last, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, min(n, most)-1)
	if err != nil {
		return fmt.Errorf("fcntl: %w", err)
	}
	_ = unix.Close(last)
	if n >= most {
		n = math.MaxInt32 // there is no more to be had
	}
	tableRoom.Store(int64(n))
	return nil
}
