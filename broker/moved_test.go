package broker

import (
	"fmt"
	"slices"
	"testing"
)

// received are the payloads of all that a session has waiting on a journal.
func received(t *testing.T, j *MemoryJournal, id string) (got []string) {
	t.Helper()
	n := startNode(t, 1, func(o *Options) { o.Journal = j })
	defer n.stop()
	p := n.connect(5, id, kept)
	if !p.connack.SessionPresent {
		return []string{"no session"}
	}
	info, _ := n.Session(home(id))
	for range info.Inflight + info.Queued {
		m := p.receive()
		got = append(got, fmt.Sprintf("%s dup=%t qos=%d", m.Payload, m.Dup, m.QoS))
		p.acknowledge(m)
	}
	return got
}

// TestASessionThatMovedOutlivesItsNewBridge kills a bridge to which a session has moved with
// messages that wait and are in flight, before that has ever rewritten its journal.
func TestASessionThatMovedOutlivesItsNewBridge(t *testing.T) {
	from := newNode(t, 1, func(o *Options) { o.Journal = new(MemoryJournal) })
	p := from.connect(5, "mover", kept)
	p.subscribe("t", 2)
	speaker := from.connect(5, "speaker")
	for _, payload := range []string{"in flight", "waits"} {
		m := text("t", payload)
		m.QoS = 2
		speaker.publish(m)
		if payload == "in flight" {
			p.receive()
			from.cut(p, "mover")
		}
	}
	offer, became := from.Offer(home("mover"), from.session(home("mover")).principal.Party(), false)
	state, settled := from.Cut(home("mover"))
	if became != Offered || !settled {
		t.Fatalf("the offer became %v, settled %v", became, settled)
	}

	journal := new(MemoryJournal)
	to := newNode(t, 1, func(o *Options) { o.Journal = journal })
	if err := to.Expect(home("mover"), offer, 1, func() {}); err != nil {
		t.Fatal(err)
	}
	stored := make(chan struct{})
	if err := to.Take(home("mover"), state, func() { close(stored) }); err != nil {
		t.Fatal(err)
	}
	<-stored
	want := []string{"in flight dup=true qos=2", "waits dup=false qos=2"}
	if got := received(t, journal.Copy(), "mover"); !slices.Equal(got, want) {
		t.Errorf("received %q, want %q", got, want)
	}
}
