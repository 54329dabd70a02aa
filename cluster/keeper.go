package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

const (
	attemptTimeout = 900 * time.Millisecond // of one question to NATS
	followPause    = 100 * time.Millisecond // between two attempts to follow the stream
	staleAfter     = time.Second            // delay of reading behind confirmed writes, after which it starts again
)

func newInstance() string {
	var id [9]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// await returns when the node may work and knows the time of the cluster, or why it
// cannot.
func (m *Membership) await(ctx context.Context) error {
	may := m.elected
	if m.o.Working == All {
		may = m.entered
	}
	tick := time.NewTicker(m.o.every)
	defer tick.Stop()
	for told := ""; ; {
		m.mu.Lock()
		reason := m.waitsFor()
		m.mu.Unlock()
		if reason != told && reason != "" {
			told = reason
			m.o.Waiting(reason)
		}
		select {
		case err := <-m.lost:
			return err
		case <-may:
			if closed(m.timed) {
				return nil
			}
			may = m.timed
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waitsFor describes, for the log, the node that a standby or a node with a taken id
// waits for; "" for none.
func (m *Membership) waitsFor() string {
	if p := m.machine.peers[m.o.ID]; p != nil && m.machine.phase == candidate && !p.record.ended() {
		return fmt.Sprintf("this bridge is a standby: another one with the id %q works, started %s; give this one an id of its own, or it takes over when that one ends",
			m.o.ID, time.UnixMilli(p.record.Started).UTC().Format(time.RFC3339))
	}
	if m.o.Working == All || m.machine.phase != member {
		return ""
	}
	var oldest *peer
	for _, p := range m.machine.peers {
		if !p.record.ended() && p.record.Joined < m.machine.joined && (oldest == nil || p.record.Joined < oldest.record.Joined) {
			oldest = p
		}
	}
	if oldest == nil {
		return ""
	}
	return fmt.Sprintf("this bridge is a standby: %q serves and this one takes over when it ends", oldest.id)
}

// follow reads the stream until ctx ends.
func (m *Membership) follow(ctx context.Context) {
	for ctx.Err() == nil {
		round, cancel := context.WithCancel(ctx)
		m.mu.Lock()
		m.refollow, m.caught = cancel, false
		m.mu.Unlock()
		err := m.stream.Follow(round, m.caughtUp, m.each)
		cancel()
		m.o.Log.Debug("following the cluster broke off", "error", err)
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
		}
	}
}

// caughtUp handles the end of what the stream had when its reading began.
func (m *Membership) caughtUp() {
	m.mu.Lock()
	m.current, m.caught = true, true
	m.mu.Unlock()
	m.hurry()
}

// each handles an entry of the stream.
func (m *Membership) each(id string, revision uint64, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id == "" {
		m.machine.passed(revision)
		return
	}
	e, err := decodeEntry(id, revision, data)
	if err != nil {
		m.unreadable(id, revision, err)
		return
	}
	if id == secretsID {
		m.machine.passed(revision)
		m.sawSecrets(e)
		return
	}
	m.machine.seen(e)
	m.heard[id] = m.now()
	if id != m.o.ID {
		m.time.heard(id, &e.record, m.caught)
	}
	m.update(id)
	m.keepTime()
}

// unreadable passes over a record that cannot be read, but for one of a newer
// bridge, which this one cannot work with.
func (m *Membership) unreadable(id string, revision uint64, err error) {
	m.machine.passed(revision)
	if coded := (*protocol.Error)(nil); errors.As(err, &coded) {
		m.fail(err)
		return
	}
	if !m.told[id] {
		m.told[id] = true
		m.o.Log.Error("a record of the cluster cannot be read", "node", id, "error", err)
	}
}

// keep writes this node's record, and the verdicts on silent ones, until ctx ends.
func (m *Membership) keep(ctx context.Context) {
	tick := time.NewTicker(m.o.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-m.wake:
		case <-ctx.Done():
			return
		}
		m.keepSecrets(ctx) // before others hear of a version, and it comes into use
		m.take(ctx, m.next())
		m.declare(ctx)
	}
}

// next returns the step to take now. A node joins only after it has read the stream,
// and so knows the other nodes.
func (m *Membership) next() step {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchdog()
	if !m.current {
		return step{kind: rest}
	}
	if err := m.admit(); err != nil {
		m.fail(err)
	}
	return m.machine.next()
}

// watchdog restarts a follower that lags behind, and ends the node after too long
// without a connection.
func (m *Membership) watchdog() {
	now := m.now()
	switch {
	case m.machine.horizon >= m.machine.proof:
		m.stale = 0
	case m.stale == 0:
		m.stale = now
	case now-m.stale > staleAfter && m.refollow != nil:
		m.stale = 0
		m.refollow()
	}
	switch {
	case m.stream.Connected():
		m.lonely = 0
	case m.lonely == 0:
		m.lonely = now
	case now-m.lonely > LonelyAfter && len(m.members) > 1:
		m.fail(protocol.Errorf(protocol.StoreUnavailable, "no server of NATS could be reached for %v: others may have taken over, and this bridge ends", LonelyAfter))
	}
}

// take carries out a step of the machine.
func (m *Membership) take(ctx context.Context, s step) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	switch s.kind {
	case rest:
	case look:
		m.lookAt(ctx, m.o.ID)
	case prove:
		sent := m.now()
		revision, err := m.stream.Prove(ctx, m.machine.instance)
		m.outcome(s, sent, revision, err)
	case join, renew:
		sent := m.now()
		revision, err := m.write(ctx, s)
		m.outcome(s, sent, revision, err)
	}
}

// write stores the node's record.
func (m *Membership) write(ctx context.Context, s step) (uint64, error) {
	m.mu.Lock()
	m.mine.Renewals++
	m.mine.Epoch, m.mine.Joined = m.machine.epoch, m.machine.joined
	m.keepTime()
	m.time.tell(&m.mine)
	data, err := m.mine.encode()
	m.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return m.stream.Write(ctx, m.o.ID, data, s.after, 0)
}

// outcome reports the result of a write to the machine.
func (m *Membership) outcome(s step, sent time.Duration, revision uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.machine.confirmed(s, sent, m.now(), revision)
	case errors.Is(err, ErrTaken):
		m.machine.refused()
		m.hurry()
	default:
		m.counters.unconfirmed.Inc()
		m.o.Log.Debug("the record of this bridge was not confirmed", "error", err)
	}
	m.answer()
	m.update(m.o.ID)
}

// lookAt reads a record.
func (m *Membership) lookAt(ctx context.Context, id string) {
	data, revision, err := m.stream.Read(ctx, id)
	m.mu.Lock()
	defer m.mu.Unlock()
	var found *entry
	if err == nil && revision != 0 {
		var e entry
		if e, err = decodeEntry(id, revision, data); err == nil {
			found = &e
		}
	}
	switch {
	case err != nil: // the next time it is asked again
		m.o.Log.Debug("a record of the cluster was not read", "node", id, "error", err)
		return
	case id == m.o.ID:
		m.machine.looked(found)
	case found == nil:
		m.machine.gone(id)
	default:
		m.machine.peer(*found)
	}
	m.update(id)
}

// declare writes the verdict on every node that was silent for too long.
func (m *Membership) declare(ctx context.Context) {
	m.mu.Lock()
	silent := m.machine.silent()
	m.mu.Unlock()
	for _, e := range silent {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		data, err := ending(&e.record, Dead, m.o.ID)
		if err == nil {
			_, err = m.stream.Write(attempt, e.id, data, e.revision, e.record.endedLife())
		}
		switch {
		case err == nil:
			m.counters.verdicts.Inc()
			m.o.Log.Warn("a bridge was silent and is declared dead", "node", e.id, "epoch", e.record.Epoch)
		case errors.Is(err, ErrTaken): // it is alive, or another node was quicker
			m.lookAt(attempt, e.id)
		}
		cancel()
	}
}

// ending is the record of a node that is no member any more.
func ending(r *Record, state State, by string) ([]byte, error) {
	ended := Record{Schema: recordSchema, Instance: r.Instance, Renewals: r.Renewals, By: by, Removed: r.Removed, Member: r.Member}
	ended.State, ended.Addresses, ended.Notes = state, nil, nil
	return ended.encode()
}

// resign writes that this node has ended, unless it is no member.
func (m *Membership) resign(ctx context.Context) error {
	for {
		err := m.resignOnce(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(m.o.every):
		case <-ctx.Done():
			return err
		}
	}
}

func (m *Membership) resignOnce(ctx context.Context) error {
	m.mu.Lock()
	joined, after, unfit := m.machine.joined, m.machine.revision, m.machine.phase == fenced
	m.mine.Epoch, m.mine.Joined = m.machine.epoch, joined
	data, err := ending(&m.mine, Left, "")
	life := m.mine.endedLife()
	m.mu.Unlock()
	if err != nil || joined == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	_, err = m.stream.Write(ctx, m.o.ID, data, after, life)
	if !errors.Is(err, ErrTaken) {
		return err
	}
	if !unfit { // a renewal whose confirmation was lost, or the verdict
		m.lookAt(ctx, m.o.ID)
		return err
	}
	return nil
}
