package broker

import (
	"context"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// A Directory knows which bridge of a cluster has the session of a client id.
// Package cluster/sessions is one.
type Directory interface {
	// Enter returns when a client that connects here may have its session: no other
	// bridge has it any more, and what one had is here. It fails with [ErrTaken],
	// [ErrOvertaken] and otherwise when nobody can tell.
	Enter(context.Context, Entering) (Admission, error)
	// Left is told that a session has ended here, or is not kept any more. Locks of
	// the broker are held: it must not block, and must not call the broker.
	Left(SessionID)
	// Settled is told that what kept a session from being cut is settled, see
	// [Broker.Cut]. It must not block, and must not call the broker.
	Settled(SessionID)
	// Restored is told which sessions the journal has, and says under which epoch each
	// is this bridge's; 0 if it is not.
	Restored(context.Context, []Held) (epochs []uint32, err error)
}

// An Entering is a client that connects.
type Entering struct {
	ID    SessionID
	Party protocol.Party
	Clean bool // it wants no session of before
	Kept  bool // its session is to outlive the connection
}

// An Admission lets a client have its session.
type Admission struct {
	Epoch uint32 // of this bridge's ownership of the session; 0 if it is not kept
	Since int64  // when the client connected, in Unix nanoseconds
	Done  func() // is called once the client has its session, or is gone
}

// A Held is a session that the journal has.
type Held struct {
	ID    SessionID
	Epoch uint32 // of the ownership it was stored under; 0 if it was stored by a bridge that was alone
}

// Why a client may not have its session.
var (
	ErrTaken       = errTaken
	ErrOvertaken   = &packet.Error{Reason: packet.ServerBusy, Text: "the client has connected to another bridge meanwhile"}
	ErrUnavailable = &packet.Error{Reason: packet.ServerUnavailable, Text: "the session is on a bridge that does not answer; try again"}
)

// A Standing is what a bridge has of a client id.
type Standing byte

// Standings of client ids.
const (
	Absent Standing = iota
	Clean           // a session that ends with its connection
	Kept
)

// enterCluster has the client enter once no other bridge has its session. It may
// wait, and is not for readers: for a session whose bridge has just died, until the
// others know that, have chosen one of them, and that has loaded the session.
func (b *Broker) enterCluster(t *turn, c *conn, q *request, who *protocol.Principal, authData []byte) {
	limits := &b.options.Limits
	ctx, cancel := context.WithTimeout(b.ctx, limits.EntryTimeout)
	defer cancel()
	c.mayTake(limits.EntryTimeout + limits.ConnectTimeout)
	id := SessionID{who.Home(), q.shown.ClientID}
	admission, err := b.options.Directory.Enter(ctx, Entering{
		ID: id, Party: who.Party(), Clean: q.clean, Kept: q.expiry > 0,
	})
	if err == nil && !q.clean {
		if err = b.enterAlone(ctx, id); err != nil {
			admission.Done()
		}
	}
	t.begin()
	if err != nil {
		client := NewClient(q.shown.ClientID, who)
		client.Remote, client.Listener, client.Version = c.remote, c.door.name, c.version
		b.log.Info("connection refused by the cluster", "client", client.ID, "listener", c.door.name, "remote", c.remote, "error", err)
		t.turnAway(c, client, refusalOfCluster(err))
		return
	}
	q.admission = admission
	t.enter(c, q, who, authData)
	admission.Done()
	if q.promises {
		t.awaitStored()
	}
}

// awaitStored waits until the records of a turn are stored. CONNACK leaves with the
// end of the turn, and promises the session and the Will. Where NATS takes longer
// than the client would wait, the client is let in all the same: as long as this
// bridge lives, it has both.
func (t *turn) awaitStored() {
	ctx, cancel := context.WithTimeout(t.b.ctx, t.b.options.Limits.ConnectTimeout)
	defer cancel()
	if at := t.recorded; t.b.journal != nil && at != 0 {
		t.b.commit(t)
		t.b.journal.wait(ctx, at)
	}
}

func refusalOfCluster(err error) *packet.Error {
	if why, ok := err.(*packet.Error); ok {
		return why
	}
	return ErrUnavailable
}

// Here says what the bridge has of a client id, and since when.
func (b *Broker) Here(id SessionID) (Standing, int64) {
	s := b.session(id)
	if s == nil {
		return Absent, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standing(), s.since
}

func (s *session) standing() Standing {
	switch {
	case s.ended || s.moving == arriving:
		return Absent
	case s.keeps():
		return Kept
	}
	return Clean
}

// All yields the sessions that the bridge has, and since when.
func (b *Broker) All(yield func(id SessionID, since int64) bool) {
	for _, s := range b.allSessions() {
		s.mu.Lock()
		there, since := s.standing() != Absent, s.since
		s.mu.Unlock()
		if there && !yield(s.key(), since) {
			return
		}
	}
}

// tellLeft tells the directory that a session has ended or is not kept any more.
func (b *Broker) tellLeft(s *session) {
	if d := b.options.Directory; d != nil {
		d.Left(s.key())
	}
}

// restoredOurs drops the sessions that are another bridge's by now.
func (r *restorer) restoredOurs(ctx context.Context) error {
	d := r.b.options.Directory
	if d == nil {
		return nil
	}
	held, serials := make([]Held, 0, len(r.sessions)), make([]uint64, 0, len(r.sessions))
	for serial, s := range r.sessions {
		held, serials = append(held, Held{s.key(), s.epoch}), append(serials, serial)
	}
	epochs, err := d.Restored(ctx, held)
	if err != nil {
		return err
	}
	t := newTurn(r.b).begin()
	for i, serial := range serials {
		switch s := r.sessions[serial]; {
		case epochs[i] == 0:
			r.b.journal.put(t, keyOfSession(held[i].ID), nil)
			delete(r.sessions, serial)
		case epochs[i] != s.epoch:
			s.epoch = epochs[i]
			r.b.recordSession(t, s.session)
		}
	}
	r.b.commit(t)
	return nil
}
