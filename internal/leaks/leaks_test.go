package leaks

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
)

func TestMain(m *testing.M) { Verify(m) }

func TestAGoroutineThatStaysIsNamed(t *testing.T) {
	stay := make(chan struct{})
	go func() { <-stay }()
	if err := left(0); err == nil || !strings.Contains(err.Error(), "TestAGoroutineThatStaysIsNamed") {
		t.Errorf("found %v", err)
	}
	close(stay)
	if err := left(eventually.Patience); err != nil {
		t.Error(err)
	}
}
