package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/protocol"
)

// busy has an external NATS refuse writes to the registry, as the servers of a cluster do
// while they agree on another change of the key: the first ones, or all for 0.
func busy(t *testing.T, n *natsServer, s *Store, first int64) {
	t.Helper()
	js := n.jetstream(t)
	stream, err := js.Stream(t.Context(), s.names.registry)
	if err != nil {
		t.Fatal(err)
	}
	away := stream.CachedInfo().Config
	own := away.Subjects
	away.Subjects = []string{"elsewhere.>"}
	if _, err := js.UpdateStream(t.Context(), away); err != nil {
		t.Fatal(err)
	}
	var refused atomic.Int64
	var sub *nats.Subscription
	answer := fmt.Appendf(nil, `{"error":{"code":400,"err_code":%d,"description":"wrong last sequence"}}`, jsWrongLastSequenceConstant)
	sub, err = js.Conn().Subscribe(s.names.registryRoot+">", func(m *nats.Msg) {
		if refused.Add(1) == first {
			back(t, js, sub, away, own)
		}
		_ = m.Respond(answer)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
}

// back has the stream take writes again.
func back(t *testing.T, js jetstream.JetStream, sub *nats.Subscription, config jetstream.StreamConfig, subjects []string) {
	if err := sub.Unsubscribe(); err != nil {
		t.Error(err)
	}
	config.Subjects = subjects
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Error(err)
	}
}

// writes are the writes that depend on what a key holds: "held" holds a revision, "none"
// nothing.
func writes(things *Table[thing], revision uint64) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"update": func(ctx context.Context) error {
			_, err := things.Update(ctx, "held", &thing{N: 2}, revision)
			return err
		},
		"create": func(ctx context.Context) error {
			_, err := things.Create(ctx, "none", &thing{N: 2})
			return err
		},
		"once": func(ctx context.Context) error {
			_, err := things.CreateOnce(ctx, "none", &thing{N: 2})
			return err
		},
		"delete": func(ctx context.Context) error { return things.Delete(ctx, "held", revision) },
	}
}

// A write that is refused while its key holds what it must is made once the servers are
// done with the other change.
func TestAWriteWaitsForAnotherOne(t *testing.T) {
	for _, name := range []string{"update", "create", "once", "delete"} {
		t.Run(name, func(t *testing.T) {
			n, s, things := external(t)
			load(t, s)
			revision, err := things.Create(t.Context(), "held", &thing{N: 1})
			if err != nil {
				t.Fatal(err)
			}
			busy(t, n, s, 2*writeAttempts)
			if err := writes(things, revision)[name](t.Context()); err != nil {
				t.Fatal(err)
			}
			held, _, _ := things.Get("held")
			created, _, _ := things.Get("none")
			switch {
			case name == "update" && held.N != 2, name == "create" && created == nil, name == "once" && created == nil, name == "delete" && held != nil:
				t.Errorf("it is confirmed, and not made: %v, %v", held, created)
			}
		})
	}
}

// A write that is refused until its time is over has failed.
func TestAWriteThatWaitsInVainFails(t *testing.T) {
	n, s, things := external(t)
	load(t, s)
	revision, err := things.Create(t.Context(), "held", &thing{N: 1})
	if err != nil {
		t.Fatal(err)
	}
	busy(t, n, s, 0)
	for name, write := range writes(things, revision) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			wantCode(t, write(ctx), protocol.StoreUnavailable)
		})
	}
	if v, at, _ := things.Get("held"); v.N != 1 || at != revision {
		t.Errorf("%v at %d, it was at %d", v, at, revision)
	}
}
