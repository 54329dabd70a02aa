package broker

import (
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
)

// Of publishes that are refused without a word to their client the log tells,
// once a minute of a connection and once a second of all.
const (
	refusalEvery  = time.Minute
	refusalsBurst = 10
)

// refusals bound how often the log tells of them.
type refusals struct {
	mu     sync.Mutex
	paidBy int64 // steady time at which all that was said is paid for
}

// allow reports whether one more may be said.
func (r *refusals) allow(now int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := max(r.paidBy, now)
	if from-now > (refusalsBurst-1)*int64(time.Second) {
		return false
	}
	r.paidBy = from + int64(time.Second)
	return true
}

// tellRefusal logs that a publish was refused. MQTT 5 clients are told, but for
// QoS 0; others never know, so their operator should.
func (t *turn) tellRefusal(c *conn, p *packet.Publish, v Verdict) {
	if c.version == packet.V5 && p.QoS > 0 {
		t.b.log.Debug("publish refused", "client", c.client.ID, "reason", v.Text)
		return
	}
	c.refused++
	if c.refusedAt != 0 && t.now-c.refusedAt < int64(refusalEvery) || !t.b.refusals.allow(t.now) {
		return
	}
	t.b.log.Warn("a publish is refused, of which the client is not told", "client", c.client.ID, "principal", c.client.Principal().ID,
		"remote", c.remote, "topic", string(cutText(string(p.Topic))), "reason", v.Text, "refused", c.refused)
	c.refused, c.refusedAt = 0, t.now
}
