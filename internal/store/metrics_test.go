package store

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestTheStoreTellsHowItIs(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	n := embedded(t, t.TempDir())
	s := open(t, n, Options{Registerer: registry})
	things := NewTable[thing](s, "thing")
	NewTable[thing](s, "other")
	load(t, s)
	ctx := context.Background()
	for _, key := range []string{"a", "b"} {
		if _, err := things.Create(ctx, key, &thing{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := things.Create(ctx, "a", &thing{})
	wantCode(t, err, protocol.AlreadyExists)
	if err := s.Claims().Claim(ctx, claim(1, 10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	const want = `
# HELP aibridge_store_claims_total Claims of commands, of which one record holds many.
# TYPE aibridge_store_claims_total counter
aibridge_store_claims_total 1
# HELP aibridge_store_keys Keys in a table of the registry.
# TYPE aibridge_store_keys gauge
aibridge_store_keys{table="other"} 0
aibridge_store_keys{table="probe"} 0
aibridge_store_keys{table="thing"} 2
# HELP aibridge_store_view_current 1 while the view follows the registry, 0 while it is being read anew or NATS is away.
# TYPE aibridge_store_view_current gauge
aibridge_store_view_current 1
# HELP aibridge_store_view_lag_messages Changes of the registry that are yet to reach the view.
# TYPE aibridge_store_view_lag_messages gauge
aibridge_store_view_lag_messages 0
`
	eventually.Holds(t, "they tell how it is", func() bool { // the view begins anew now and then on a busy machine
		err = testutil.GatherAndCompare(registry, strings.NewReader(want),
			"aibridge_store_claims_total", "aibridge_store_keys", "aibridge_store_view_current", "aibridge_store_view_lag_messages")
		return err == nil
	}, &err)
	if got := testutil.CollectAndCount(s.metrics.writes); got != 3 { // create ok, create 3002, claims ok
		t.Errorf("%d series of writes", got)
	}
	if _, err := Open(ctx, Conns{State: n.State(), Flow: n.Flow()}, Options{Registerer: registry}); err == nil {
		t.Error("a second store registered the same metrics")
	}
	s.Close()
	if left, _ := registry.Gather(); len(left) != 0 {
		t.Errorf("%d metrics are left after Close", len(left))
	}
}
