package broker

import (
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
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

func (*thrift) Retained(*protocol.Principal) (own, space int) { return 2, 3 }

func (q *thrift) RetainedRefused(space bool) {
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
		m, err := parseMessage(appendMessage(nil, &message{topic: "t", payload: []byte("p"), retain: true, owner: owner, space: "house"}, 0))
		if err != nil || m.owner != owner || m.space != "house" || string(m.payload) != "p" {
			t.Errorf("%q: %+v, %v", owner, m, err)
		}
	}
}
