package prefetch_test

import (
	"testing"

	"github.com/aibridge/aibridge/internal/prefetch"
)

// TestNoAddressFaults asks for memory that there is not.
func TestNoAddressFaults(t *testing.T) {
	t.Parallel()
	for _, address := range []uintptr{0, 1, 1 << 20, ^uintptr(0), ^uintptr(0) >> 1} {
		prefetch.Line(address)
		for _, size := range []uintptr{0, 1, 64, 1 << 10} {
			prefetch.Lines(address, size)
		}
	}
}
