package gate

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestTheTableOfDescriptorsGrowsBeforeItIsFull has the kernel's table hold more than is
// open, at the start and from the moment that its half is reached.
func TestTheTableOfDescriptorsGrowsBeforeItIsFull(t *testing.T) {
	if Descriptors() <= 4*leastTable {
		t.Skipf("the process may have %d descriptors only", Descriptors())
	}
	tableRoom.Store(0)
	Opened(5)
	eventually.Holds(t, "that there is room at the start", func() bool { return tableSize(t) >= leastTable && !tableGrows.Load() })
	size := tableSize(t)
	Opened(leastTable/2 - 1)
	if tableGrows.Load() {
		t.Fatal("the table grows while half of it is free")
	}
	if size >= 4*leastTable {
		t.Skipf("the table has room for %d already", size)
	}
	Opened(leastTable / 2)
	eventually.Holds(t, "that there is room for four times as many", func() bool { return tableSize(t) >= 4*leastTable && !tableGrows.Load() })
}

func TestNoMoreDescriptorsAreReservedThanTheProcessMayHave(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 1024
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	tableRoom.Store(0)
	if err := Reserve(1 << 20); err != nil {
		t.Fatal(err)
	}
	Opened(1023)
	if tableGrows.Load() {
		t.Fatal("a table that cannot grow is to grow")
	}
}

// tableSize is the number of descriptors that the kernel's table has room for.
func tableSize(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "FDSize:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the system does not tell the size of the table")
	return 0
}
