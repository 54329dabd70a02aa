package mcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestWhatIsKeptOfStreamsIsBounded(t *testing.T) {
	r, ctx := newReplay(), t.Context()
	after := func(session, stream string, index int) (n int, err error) {
		for _, err = range r.After(ctx, session, stream, index) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	for _, session := range []string{"a", "b"} {
		_ = r.Open(ctx, session, "s")
		_ = r.Append(ctx, session, "s", []byte("first"))
	}
	for range 100 {
		_ = r.Append(ctx, "a", "s", []byte(strings.Repeat("x", 10_000)))
	}
	if n, err := after("a", "s", 0); !errors.Is(err, sdk.ErrEventsPurged) {
		t.Errorf("%d events that are gone: %v", n, err)
	}
	if n, err := after("a", "s", 98); n != 2 || err != nil {
		t.Errorf("the last two: %d, %v", n, err)
	}
	if n, err := after("b", "s", -1); n != 1 || err != nil {
		t.Errorf("another session has lost its events: %d, %v", n, err)
	}
	for i := range 10 * keptStreams {
		_ = r.Open(ctx, "a", fmt.Sprint(i))
		_ = r.Append(ctx, "a", fmt.Sprint(i), nil)
	}
	if s := r.sessions["a"]; len(s.streams) > keptStreams || s.bytes > keptEvents {
		t.Errorf("%d streams, %d bytes", len(s.streams), s.bytes)
	}
	_ = r.Append(ctx, "a", "s", []byte("late")) // of a stream that was forgotten
	if n, err := after("a", "s", 100); !errors.Is(err, sdk.ErrEventsPurged) {
		t.Errorf("a stream with a gap: %d, %v", n, err)
	}
	for range keptEvents {
		_ = r.Append(ctx, "b", "s", nil)
	}
	if s := r.sessions["b"]; len(s.order) > keptEvents/256 {
		t.Errorf("%d empty events", len(s.order))
	}
	_ = r.SessionClosed(ctx, "a")
	_ = r.SessionClosed(ctx, "b")
	_ = r.Append(ctx, "a", "s", []byte("after the end"))
	if len(r.sessions) != 0 {
		t.Errorf("%d sessions are left", len(r.sessions))
	}
}
