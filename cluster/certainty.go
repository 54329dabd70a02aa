package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Lost yields why this node is no member any more, once: the bridge must end.
func (m *Membership) Lost() <-chan error { return m.lost }

// Check returns an error if this node may have lost its membership without knowing it.
// While it does, the node must not acknowledge anything durable.
func (m *Membership) Check() error {
	if m.stream == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unsure()
}

// Sure waits until the membership of this node is certain: at once, as a rule, or with
// its next renewal. It returns the error of [Membership.Check] when ctx ends, and once
// the membership is lost.
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

// answer wakes the calls of [Membership.Sure]. The caller holds mu.
func (m *Membership) answer() {
	close(m.answered)
	m.answered = make(chan struct{})
}

// A Verdict is the error of a node that was declared dead.
type Verdict struct {
	Node Node
	By   string // id of the bridge that declared it dead; "" if unknown
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
