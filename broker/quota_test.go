package broker

import (
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// thrift lets everybody have two messages retained and each space three, and
// nobody publish what is longer than ten bytes with its topic.
type thrift struct {
	mu      sync.Mutex
	refused []bool // of spaces
}

func (*thrift) Publish(_ *Client, _ string, size int) Verdict {
	if size > 10 {
		return Verdict{Reason: byte(packet.QuotaExceeded), Text: "too many bytes"}
	}
	return Verdict{}
}

func (*thrift) Holdings(*protocol.Principal) (own, space Holdings) {
	return Holdings{Retained: 2, RetainedBytes: 30, Sessions: 2}, Holdings{Retained: 3, RetainedBytes: 45, Sessions: 3}
}

func (q *thrift) Refused(_ Holding, space bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refused = append(q.refused, space)
}

func TestWhatIsOverTheQuotaIsNotPublished(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Quota = new(thrift) })
		p := n.connect(5, "a")
		to := n.connect(5, "to")
		to.subscribe("x", 1)
		large, small := text("x", strings.Repeat("l", 10)), text("x", "small")
		large.QoS, small.QoS = 1, 1
		if r := p.publish(large); r != packet.QuotaExceeded {
			t.Errorf("11 bytes: %v", r)
		}
		p.publish(small)
		to.take("small")
		to.quiet()
	})
}

func TestNobodyHasMoreRetainedThanItMay(t *testing.T) {
	q := new(thrift)
	n := newNode(t, 1, func(o *Options) { o.Quota = q })
	ann, bob := n.connect(5, "a", as("ann")), n.connect(5, "b", as("bob"))
	retain := func(p *peer, topic, payload string, want packet.Reason) {
		t.Helper()
		m := text(topic, payload)
		m.QoS, m.Retain = 1, true
		if r := p.publish(m); r != want && (want.Failed() || r.Failed()) {
			t.Errorf("%s %q: %v, want %v", topic, payload, r, want)
		}
	}
	retain(ann, "1", "x", packet.Success)
	retain(ann, "2", "x", packet.Success)
	retain(ann, "3", "x", packet.QuotaExceeded) // her third
	retain(ann, "2", "y", packet.Success)       // in place of her own
	retain(bob, "4", "x", packet.Success)
	retain(bob, "5", "x", packet.QuotaExceeded) // the space's fourth
	retain(bob, "2", "z", packet.Success)       // in place of another's, who has room again
	retain(ann, "2", "", packet.Success)
	retain(ann, "3", "x", packet.Success)
	retain(bob, "1", "", packet.Success)
	retain(bob, "3", "", packet.Success)
	retain(bob, "4", "", packet.Success)
	r := &n.retained
	r.mu.Lock()
	if len(r.owners) != 0 || len(r.spaces) != 0 || r.bytes != 0 {
		t.Errorf("nothing is retained, and %v, %v, %d bytes are counted", r.owners, r.spaces, r.bytes)
	}
	r.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.refused) != 2 || q.refused[0] || !q.refused[1] {
		t.Errorf("told of refusals for a space: %v", q.refused)
	}
}

func TestWhoseARetainedMessageIsOutlivesTheProcess(t *testing.T) {
	for _, owner := range []string{"", "lamp", "house/lamp"} {
		m, err := parseMessage(appendMessage(nil, &message{topic: "t", payload: []byte("p"), retain: true, owner: owner, to: everybody("house")}, 0))
		if err != nil || m.owner != owner || m.to != everybody("house") || string(m.payload) != "p" {
			t.Errorf("%q: %+v, %v", owner, m, err)
		}
	}
}

func TestNobodyHasMoreBytesRetainedThanItMay(t *testing.T) {
	q := new(thrift)
	n := newNode(t, 1, func(o *Options) { o.Quota = admitting{q} })
	ann, bob := n.connect(5, "a", as("ann")), n.connect(5, "b", as("bob"))
	retain := func(p *peer, topic string, size int, want packet.Reason) {
		t.Helper()
		m := text(topic, strings.Repeat("x", size))
		m.QoS, m.Retain = 1, true
		if r := p.publish(m); r != want && (want.Failed() || r.Failed()) {
			t.Errorf("%s of %d bytes: %v, want %v", topic, size, r, want)
		}
	}
	retain(ann, "1", 9, packet.Success)
	retain(ann, "2", 20, packet.QuotaExceeded) // 31 of 30 bytes
	retain(ann, "2", 19, packet.Success)
	retain(ann, "1", 10, packet.QuotaExceeded) // in place of her own, and larger
	retain(ann, "1", 8, packet.Success)
	retain(bob, "3", 16, packet.QuotaExceeded) // 29 and 17 of the space's 45 bytes
	retain(bob, "3", 15, packet.Success)
	retain(bob, "2", 13, packet.Success) // in place of hers, which gives the space room
	for _, topic := range []string{"1", "2", "3"} {
		retain(ann, topic, 0, packet.Success)
	}
	r := &n.retained
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.owners) != 0 || len(r.spaces) != 0 || r.bytes != 0 {
		t.Errorf("nothing is retained, and %v, %v, %d bytes are counted", r.owners, r.spaces, r.bytes)
	}
}

// admitting lets any message be published.
type admitting struct{ Quota }

func (admitting) Publish(*Client, string, int) Verdict { return Verdict{} }

// A principal's sessions are counted as long as they are kept, connected or
// not, and across a restart.
func TestNobodyHasMoreSessionsKeptThanItMay(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		journal := new(MemoryJournal)
		options := func(o *Options) { o.Quota, o.Journal = new(thrift), journal }
		n := startNode(t, readers, options)
		try := func(version byte, id, user string, want packet.Reason, change ...func(*packet.Connect)) {
			t.Helper()
			p := n.tryConnect(version, id, append(change, as(user))...)
			if p.connack.Reason != want {
				t.Fatalf("%s of %s: %v, want %v", id, user, p.connack.Reason, want)
			}
			if want == packet.Success {
				n.leave(p, id)
			} else {
				p.ended()
			}
		}
		try(5, "a1", "ann", packet.Success, kept)
		try(4, "a2", "ann", packet.Success, kept)
		try(5, "a3", "ann", packet.QuotaExceeded, kept)
		try(4, "a3", "ann", 3, kept)
		try(5, "a3", "ann", packet.Success)       // which is not kept
		try(5, "a1", "ann", packet.Success, kept) // which is there
		try(5, "b1", "bob", packet.Success, kept)
		try(5, "b2", "bob", packet.QuotaExceeded, kept) // the space's fourth
		n.stop()

		n = startNode(t, readers, options)
		defer func() { n.stop() }()
		try(5, "a3", "ann", packet.QuotaExceeded, kept)
		try(5, "a1", "ann", packet.Success) // ends it
		try(5, "a3", "ann", packet.Success, kept)
		p := n.connect(5, "a3", as("ann"), kept)
		p.hex("e0 07 00 05 1100000000") // gives it up after all
		n.gone("a3")
		eventually.Holds(t, "the session is gone", func() bool { return n.session(home("a3")) == nil })
		try(5, "b2", "bob", packet.Success, kept)
		for _, id := range []string{"a2", "b1", "b2"} {
			n.Kick(home(id), true)
		}
		n.kept.mu.Lock()
		defer n.kept.mu.Unlock()
		if len(n.kept.owners) != 0 || len(n.kept.spaces) != 0 {
			t.Errorf("nothing is kept, and %v, %v are counted", n.kept.owners, n.kept.spaces)
		}
	})
}
