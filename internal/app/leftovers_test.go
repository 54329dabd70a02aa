package app_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
)

// forget removes a record from the state of a bridge that does not run, as
// one leaves it that dies in the middle of what follows from a removal.
func forget[T any](t *testing.T, n *bridgetest.Node, table, key string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	nats, err := natsd.Start(natsd.Options{Dir: filepath.Join(n.Config.Data, "nats"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer nats.Close()
	s, err := store.Open(t.Context(), store.Conns{State: nats.State(), Flow: nats.Flow()}, store.Options{Prefix: n.Config.Root, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := store.NewTable[T](s, table)
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := rows.Delete(t.Context(), key, 0); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsRetainedOfDataThatIsGoneIsWithdrawnAtTheNextStart(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	caller := n.Caller(t, "caller")
	home(t, caller, "one")
	for _, key := range []string{"stays", "gone"} {
		must(t, caller, "group.data.set", `{"cap_id":"home","group_id":"all","data_key":"`+key+`","data_value":1,"data_type":"number"}`)
	}
	before := n.Connect(t, "before")
	before.Listen(t, "aibridge/cap/home/data/#")
	before.Next(t)
	before.Next(t) // both are retained

	n.Stop(t)
	forget[cap.Datum](t, n, "data", "default/home/all/gone")
	n.Restart(t)

	eventually.Holds(t, "only what is there is retained", func() bool {
		late := n.Connect(t, "late")
		defer late.Drop()
		late.Listen(t, "aibridge/cap/home/data/#", "done")
		late.Send(t, "done", "")
		for gone := false; ; {
			switch p := late.Next(t); {
			case p.Topic == "done":
				return !gone
			case len(p.Payload) > 0 && strings.HasSuffix(p.Topic, "/gone"):
				gone = true
			}
		}
	})
}
