package offer

import (
	"strings"
	"testing"

	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/protocol"
)

func formWith(names ...string) *form {
	f := new(form)
	for _, name := range names {
		f.fields = append(f.fields, field{Argument: mcpdoor.Argument{Name: name}})
	}
	return f
}

// A document full of places, and a long argument, would together take the memory of the
// bridge.
func TestAFilledPromptIsBounded(t *testing.T) {
	t.Parallel()
	places, long := strings.Repeat("{a}", 100_000), strings.Repeat("x", 4096)
	for _, names := range [][]string{{"a"}, {"a", "b"}} {
		text, err := formWith(names...).fill(places, map[string]string{"a": long})
		if protocol.CodeOf(err) != protocol.PayloadTooLarge || text != "" {
			t.Errorf("%v: %d bytes, %v", names, len(text), err)
		}
		text, err = formWith(names...).fill(places, map[string]string{"a": "yes"})
		if err != nil || text != strings.Repeat("yes", 100_000) {
			t.Errorf("%v: %d bytes, %v", names, len(text), err)
		}
	}
	whole := strings.Repeat("y", maxFilled+1) // as the agent says it
	if text, err := formWith().fill(whole, nil); err != nil || text != whole {
		t.Errorf("a long document without places has %d bytes, %v", len(text), err)
	}
}
