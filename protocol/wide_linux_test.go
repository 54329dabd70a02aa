package protocol

import (
	"syscall"
	"testing"
)

// TestNothingIsReadBeyondAText has texts that end and begin at pages that cannot be read.
func TestNothingIsReadBeyondAText(t *testing.T) {
	page := syscall.Getpagesize()
	room, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = syscall.Munmap(room) }()
	for i := range room {
		room[i] = 'x'
	}
	for _, closed := range [][]byte{room[:page], room[2*page:]} {
		if err := syscall.Mprotect(closed, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	open := room[page : 2*page]
	for size := range 130 {
		for _, text := range [][]byte{open[:size], open[page-size:]} {
			for _, mask := range []uint64{0, tops} {
				if got, want := run(text, mask), narrow(text, mask); got != size || want != size {
					t.Fatalf("%d and %d of %d", got, want, size)
				}
			}
		}
	}
}

// TestAllStepsFindTheSame compares the steps of this processor with those of all.
func TestAllStepsFindTheSame(t *testing.T) {
	for size := 1; size <= 100; size++ {
		text := make([]byte, size)
		for i := range text {
			text[i] = '~'
		}
		for at := range text {
			for c := range 256 {
				text[at] = byte(c)
				for _, mask := range []uint64{0, tops} {
					want := size
					if c < ' ' || c == '"' || c == '\\' || mask != 0 && c >= 0x80 {
						want = at
					}
					if run(text, mask) != want || narrow(text, mask) != want {
						t.Fatalf("%q: %d and %d, want %d", text, run(text, mask), narrow(text, mask), want)
					}
				}
			}
			text[at] = '~'
		}
	}
}
