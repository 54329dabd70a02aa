package session

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// A fleet is the bridges of a cluster. Those that are nil say nothing.
type fleet map[string]*Service

// A from is the fleet as one of its bridges sees it.
type from struct {
	fleet
	self string
}

func (f from) Ask(ctx context.Context, do string, with any, take func(string, json.RawMessage, error)) {
	body, err := json.Marshal(with)
	if err != nil {
		panic(err)
	}
	for _, bridge := range slices.Sorted(maps.Keys(f.fleet)) {
		service := f.fleet[bridge]
		switch {
		case bridge == f.self:
		case service == nil:
			take(bridge, nil, protocol.Errorf(protocol.TargetUnavailable, "bridge %q says nothing", bridge))
		default:
			result, err := service.Does()[do](ctx, body)
			encoded, failed := json.Marshal(result)
			if failed != nil {
				panic(failed)
			}
			take(bridge, encoded, err)
		}
	}
}

// newFleet has the sessions of a house at b1, and others at b2.
func newFleet(bridges ...string) (fleet, map[string]*fake) {
	f, brokers := make(fleet), map[string]*fake{"b1": house(), "b2": {sessions: []Info{
		{ClientID: "attic", Principal: "bob", Space: protocol.DefaultSpace, Connected: true, Version: 5, Queued: 9},
		{ClientID: "lab/2", Principal: "carol", Space: "lab", Version: 5},
	}}}
	for i := range 5 {
		brokers["b2"].sessions = append(brokers["b2"].sessions, Info{ClientID: fmt.Sprint("sensor-", i), Principal: "alice", Version: 5})
	}
	for _, b := range bridges {
		if f[b] = nil; brokers[b] != nil {
			f[b] = New(brokers[b], b, from{f, b})
		}
	}
	return f, brokers
}

func TestSessionsOfAllBridgesAreListed(t *testing.T) {
	t.Parallel()
	f, _ := newFleet("b1", "b2")
	var all []View
	p := ListParams{Limit: 2}
	for {
		got, err := f["b1"].List(t.Context(), call(root), p)
		if err != nil || got.Total != 9 || len(got.Sessions) > 2 || got.Silent != nil {
			t.Fatalf("%+v, %v", got, err)
		}
		all = append(all, got.Sessions...)
		if p.Cursor = got.NextCursor; p.Cursor == "" {
			break
		}
	}
	if got, want := ids(all), "attic away door lamp sensor-0 sensor-1 sensor-2 sensor-3 sensor-4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if all[0].Bridge != "b2" || all[1].Bridge != "b1" {
		t.Errorf("they are at %q and %q", all[0].Bridge, all[1].Bridge)
	}
	last, err := f["b2"].List(t.Context(), call(carol), ListParams{Sort: "-id"})
	if err != nil || ids(last.Sessions) != "lab/2 lab/1" || last.NextCursor != "" {
		t.Errorf("%+v, %v", last, err)
	}
	most, err := f["b1"].List(t.Context(), call(root), ListParams{Sort: "-queued", Limit: 1})
	if err != nil || ids(most.Sessions) != "attic" || most.Total != 9 || most.NextCursor == "" {
		t.Errorf("%+v, %v", most, err)
	}
}

func TestSessionsOfABridgeThatSaysNothingAreMissing(t *testing.T) {
	t.Parallel()
	f, _ := newFleet("b1", "b2", "b3")
	got, err := f["b1"].List(t.Context(), call(root), ListParams{Principal: "bob"})
	if err != nil || ids(got.Sessions) != "attic door" || !slices.Equal(got.Silent, []string{"b3"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := f["b1"].Get(t.Context(), call(root), Params{ClientID: "attic"}); err != nil {
		t.Errorf("a session that somebody has: %v", err)
	}
	if _, err := f["b1"].Get(t.Context(), call(root), Params{ClientID: "nobody"}); protocol.CodeOf(err) != protocol.TargetUnavailable {
		t.Errorf("a session that b3 may have: %v", err)
	}
}

func TestASessionIsEndedWhereverItIs(t *testing.T) {
	t.Parallel()
	f, brokers := newFleet("b1", "b2")
	got, err := f["b1"].Kick(t.Context(), call(root), KickParams{Params{ClientID: "attic"}, true})
	if want := (KickResult{"attic", true, true}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if !slices.Equal(brokers["b2"].kicked, []string{"attic true"}) || len(brokers["b1"].kicked) > 0 {
		t.Errorf("kicked %v and %v", brokers["b1"].kicked, brokers["b2"].kicked)
	}
	if _, err := f["b1"].Kick(t.Context(), call(carol), KickParams{Params: Params{ClientID: "sensor-1"}}); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("another space's session: %v", err)
	}
	if len(brokers["b2"].kicked) != 1 {
		t.Errorf("kicked %v", brokers["b2"].kicked)
	}
}
