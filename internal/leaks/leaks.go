// Package leaks finds goroutines that tests leave behind.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aibridge/aibridge/internal/eventually"
)

// Verify runs the tests of a package, and fails it if one of their goroutines
// still runs afterwards. Those that are about to end have the time that every
// wait has: goleak alone gives up after half a second, which a busy machine takes.
func Verify(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := left(eventually.Patience); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// left waits until no goroutine is left, and lists those that are left after a while.
func left(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; {
		err := goleak.Find()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
