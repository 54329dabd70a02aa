package ask

import (
	"fmt"
	"testing"
)

// A bridge remembers the sender of a request that was handed to it, and forgets the
// oldest.
func TestHandoversAreBounded(t *testing.T) {
	var h handovers
	from := Bridge{ID: "b", Epoch: 7}
	for i := range 10 * handoversKept {
		h.note(fmt.Sprint("invocation-", i), from)
		if b, ok := h.of(fmt.Sprint("invocation-", max(i-handoversKept+1, 0))); !ok || b != from {
			t.Fatalf("of the last %d one is forgotten", handoversKept)
		}
	}
	if n := len(h.young) + len(h.old); n > 2*handoversKept {
		t.Errorf("%d are kept", n)
	}
	if _, ok := h.of("invocation-0"); ok {
		t.Error("the first is remembered")
	}
}
