//go:build linux

package bench

import (
	"context"
	"errors"
	"testing"
)

// A bridge that does not end is not waited for once nobody wants its figures any more.
func TestTheEndOfAProcessIsNotWaitedForInVain(t *testing.T) {
	t.Parallel()
	b, err := newProcess()
	if err != nil {
		t.Fatal(err)
	}
	defer b.stop()
	if err := b.start([]string{"sh", "-c", "trap '' TERM; echo deaf; exec sleep 300"}, false); err != nil {
		t.Fatal(err)
	}
	err = b.await(t.Context(), func() error {
		if b.output.String() == "" {
			return errors.New("it has said nothing")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if same, err := b.again(ctx); same != b || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
