package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Lost yields why this node is no member any more, once: the bridge must end.
func (m *Membership) Lost() <-chan error { return m.lost }

// Check says why nobody can be sure that this node is still a member, nil if
// it is. Nothing durable may be acknowledged then.
func (m *Membership) Check() error {
	if m.stream == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unsure()
}

// Sure returns nil as soon as this node is sure to be a member: at once, as a
// rule, or with its next renewal. At the end of ctx, and once it is no member any
// more, it says what [Membership.Check] says.
func (m *Membership) Sure(ctx context.Context) error {
	if m.stream == nil {
		return nil
	}
	for {
		m.mu.Lock()
		err, over, next := m.unsure(), m.machine.phase == fenced, m.answered
		m.mu.Unlock()
		if err == nil || over {
			return err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return err
		}
	}
}

// unsure is Check, with the mutex.
func (m *Membership) unsure() error {
	now := m.now()
	switch {
	case m.machine.phase == fenced:
		return protocol.Errorf(protocol.StoreUnavailable, "this bridge is no member of the cluster any more")
	case m.machine.sure(now):
		return nil
	}
	return protocol.Errorf(protocol.StoreUnavailable, "NATS has not confirmed for %v that this bridge is a member of the cluster",
		(now - m.machine.sent).Round(100*time.Millisecond))
}

// answer wakes those who wait to be sure. It is called with the mutex.
func (m *Membership) answer() {
	close(m.answered)
	m.answered = make(chan struct{})
}

// A Verdict says that this node was declared dead.
type Verdict struct {
	Node Node
	By   string // who declared it, "" if that is not known
}

func (v *Verdict) Error() string {
	by := ""
	if v.By != "" {
		by = fmt.Sprintf(" by bridge %q, which may have taken over", v.By)
	}
	return fmt.Sprintf("bridge %q was declared dead%s: it did not renew its record in time (epoch %d), and ends", v.Node.ID, by, v.Node.Epoch)
}

// Unwrap is the error as callers see it.
func (v *Verdict) Unwrap() error { return protocol.Errorf(protocol.StoreUnavailable, "%s", v.Error()) }

// fail ends the membership for a reason. The mutex is held.
func (m *Membership) fail(err error) {
	m.ended.Do(func() {
		m.machine.phase = fenced
		m.answer()
		m.lost <- err
	})
}
