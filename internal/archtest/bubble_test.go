package archtest

import (
	"strings"
	"testing"
)

// TestBubblesGoThroughTheirHelper finds tests that call [synctest.Test] itself:
// now and then the race detector dies of those, see package bubble.
func TestBubblesGoThroughTheirHelper(t *testing.T) {
	call := "synctest." + "Test("
	for path, text := range textFiles(t) {
		if strings.HasSuffix(path, "_test.go") && strings.Contains(text, call) {
			t.Errorf("%s: %s is called: call bubble.Test", path, call)
		}
	}
}
