package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/eventually"
)

// offline leaves a retained Will on a topic.
func offline(topic string) func(*packet.Connect) {
	return func(c *packet.Connect) {
		c.HasWill, c.Will.Topic, c.Will.Payload, c.Will.QoS, c.Will.Retain = true, []byte(topic), []byte("offline"), 1, true
	}
}

// comeBack connects anew and says that it is back, in one write.
func (n *node) comeBack(version byte, id, topic string, change ...func(*packet.Connect)) *peer {
	n.t.Helper()
	p := n.dial(version)
	c := packet.Connect{Version: version, CleanStart: true, ClientID: []byte(id)}
	for _, f := range change {
		f(&c)
	}
	online := text(topic, "online")
	online.QoS, online.PacketID, online.Retain = 1, 1, true
	p.send(online.Append(c.Append(nil), version))
	if err := p.connack.Decode(version, p.expect(packet.CONNACK)); err != nil || p.connack.Reason != packet.Success {
		n.t.Fatalf("CONNACK %+v: %v", p.connack, err)
	}
	if r := p.ack(packet.PUBACK, 1); r.Failed() {
		n.t.Fatalf("PUBACK %v", r)
	}
	return p
}

// What a client says on a new connection is newer than the Will of its old one,
// whichever reader is quicker: also when the old one has just been closed.
func TestAWillIsOlderThanTheNextConnection(t *testing.T) {
	const rounds = 100
	for _, readers := range []int{1, 2, 4, -1} {
		for _, closes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d readers, closed first %v", readers, closes), func(t *testing.T) {
				t.Parallel()
				n := newNode(t, readers, func(o *Options) { o.Journal = new(MemoryJournal) })
				listener := n.connect(5, "listener")
				listener.subscribe("status/#", 1)
				for round := range rounds {
					version, keep := byte(4+round%2), func(*packet.Connect) {}
					if round/2%2 == 1 {
						keep = kept
					}
					id := fmt.Sprint("device-", round)
					topic := "status/" + id
					old := n.connect(version, id, offline(topic), keep)
					if closes {
						_ = old.nc.Close()
					}
					back := n.comeBack(version, id, topic, keep)
					listener.take("offline")
					listener.take("online")
					late := n.connect(5, "late")
					late.subscribe(topic, 0)
					late.take("online")
					_ = late.nc.Close()
					n.leave(back, id)
				}
				listener.quiet()
			})
		}
	}
}

// A connection to the same session cancels what a Will's delay put off; a clean
// start ends the session, and the Will goes before what comes by the new one.
func TestAWillThatWaitsGoesBeforeACleanStartOrNotAtAll(t *testing.T) {
	for _, readers := range []int{1, 2, 4, -1} {
		t.Run(fmt.Sprintf("%d readers", readers), func(t *testing.T) {
			t.Parallel()
			n := newNode(t, readers)
			listener := n.connect(5, "listener")
			listener.subscribe("status/#", 1)
			for round := range 50 {
				id := fmt.Sprint("device-", round)
				topic := "status/" + id
				delayed := func(c *packet.Connect) {
					offline(topic)(c)
					c.Will.Properties.SetNumber(packet.WillDelay, 600)
				}
				old := n.connect(5, id, kept, delayed)
				if round%3 == 1 {
					_ = old.nc.Close()
				}
				if round%3 == 2 {
					n.cut(old, id)
				}
				if round%2 == 0 {
					n.leave(n.comeBack(5, id, topic, kept), id)
				} else {
					n.leave(n.comeBack(5, id, topic), id)
					listener.take("offline")
				}
				listener.take("online")
			}
			listener.quiet()
		})
	}
}

// A client whose session is taken over is told so, whatever it has just sent.
func TestWhoPublishesWhileItsSessionIsTakenIsToldOfIt(t *testing.T) {
	for _, qos := range []byte{1, 2} {
		n := newNode(t, 1)
		p := n.connect(5, "client", kept)
		s := n.session(home("client"))
		turn := newTurn(n.Broker).begin()
		s.mu.Lock()
		old := s.conn.Load()
		turn.detachLocked(s, "session takeover")
		s.mu.Unlock()
		m := text("t", "late")
		m.QoS, m.PacketID = qos, 1
		p.send(m.Append(nil, 5))
		eventually.Holds(t, "it is read", func() bool { return old.phase.Load() == phaseEnded })
		old.end(packet.SessionTakenOver, "", turn.now)
		turn.end()
		if reason := p.ended(); reason != packet.SessionTakenOver {
			t.Errorf("QoS %d: told %v", qos, reason)
		}
	}
}

// A standing directory has everybody enter.
type standing struct{ since atomic.Int64 }

func (d *standing) Enter(context.Context, Entering) (Admission, error) {
	return Admission{Epoch: 1, Since: d.since.Add(1), Done: func() {}}, nil
}
func (d *standing) Left(SessionID)    {}
func (d *standing) Settled(SessionID) {}
func (d *standing) Restored(_ context.Context, held []Held) ([]uint32, error) {
	return slices.Repeat([]uint32{1}, len(held)), nil
}

// CONNACK in a cluster promises stored state: others go on with it.
func TestAClientIsInWhenItsSessionAndItsWillAreStored(t *testing.T) {
	journal := new(MemoryJournal)
	n := newNode(t, 2, func(o *Options) { o.Journal, o.Directory = journal, new(standing) })
	for i := range 50 {
		n.connect(5, fmt.Sprint("clean-", i), offline("status"))
		n.connect(5, fmt.Sprint("kept-", i), kept)
		if wills, sessions := len(left(journal, keyWill)), len(left(journal, keySession)); wills != i+1 || sessions != i+1 {
			t.Fatalf("after %d of each, %d Wills and %d sessions are stored", i+1, wills, sessions)
		}
	}
}

// A client is let in after a while though its Will cannot be stored.
func TestAClientIsLetInWhoseWillCannotBeStored(t *testing.T) {
	n := newNode(t, 2, func(o *Options) {
		o.Journal, o.Directory = brokenJournal{new(MemoryJournal)}, new(standing)
		o.Limits.ConnectTimeout = 50 * time.Millisecond
	})
	listener := n.connect(5, "listener")
	listener.subscribe("status", 0)
	_ = n.connect(5, "with", offline("status")).nc.Close()
	listener.take("offline")
}

// A brokenJournal stores nothing.
type brokenJournal struct{ *MemoryJournal }

func (brokenJournal) Write(context.Context, []KeyedValue, []byte) (uint64, error) {
	return 0, errors.New("away")
}

// A slow directory has everybody wait.
type slow struct {
	standing
	ready chan struct{}
}

func (d *slow) Enter(ctx context.Context, e Entering) (Admission, error) {
	select {
	case <-d.ready:
		return d.standing.Enter(ctx, e)
	case <-ctx.Done():
		return Admission{}, ErrUnavailable
	}
}

// TestAClientMayWaitLongerForItsSessionThanForItsConnect has a session come long
// after a connection without CONNECT is closed.
func TestAClientMayWaitLongerForItsSessionThanForItsConnect(t *testing.T) {
	d, c := &slow{ready: make(chan struct{})}, clock.New()
	n := newNode(t, 1, ticking(c), func(o *Options) { o.Journal, o.Directory = new(MemoryJournal), d })
	silent, p := n.dial(5), n.dial(5)
	p.send((&packet.Connect{Version: 5, ClientID: []byte("client")}).Append(nil))
	eventually.Holds(t, "it waits for its session", func() bool { return n.entering(2*n.options.Limits.ConnectTimeout) == 1 })
	c.Advance(2 * n.options.Limits.ConnectTimeout)
	silent.ended()
	n.looked()
	close(d.ready)
	if err := p.connack.Decode(5, p.expect(packet.CONNACK)); err != nil || p.connack.Reason != packet.Success {
		t.Errorf("CONNACK %v, %v", p.connack.Reason, err)
	}
}

// entering is the number of connections that have more than so long to get in.
func (n *node) entering(d time.Duration) (count int) {
	for _, c := range n.allConns() {
		if c.until.Load() > c.accepted+int64(d) {
			count++
		}
	}
	return count
}

// TestAClientWhoseSessionDoesNotComeIsRefused tells the client to come again.
func TestAClientWhoseSessionDoesNotComeIsRefused(t *testing.T) {
	n := newNode(t, 1, func(o *Options) {
		o.Journal, o.Directory, o.Limits.EntryTimeout = new(MemoryJournal), &slow{}, time.Millisecond
	})
	p := n.dial(5)
	p.send((&packet.Connect{Version: 5, ClientID: []byte("client")}).Append(nil))
	if err := p.connack.Decode(5, p.expect(packet.CONNACK)); err != nil || p.connack.Reason != packet.ServerUnavailable {
		t.Errorf("CONNACK %v, %v", p.connack.Reason, err)
	}
}

// What the connection before publishes while its session is taken over does not count
// against the Receive Maximum of the new one.
func TestAPublishDuringATakeoverIsNotChargedToTheNewConnection(t *testing.T) {
	for _, qos := range []byte{1, 2} {
		n := newNode(t, -1, func(o *Options) { o.Limits.ReceiveMaximum, o.Journal = 1, new(MemoryJournal) })
		began, goOn := make(chan struct{}), make(chan struct{})
		var first sync.Once
		n.Handle("x", func(*Publication) {
			first.Do(func() {
				close(began)
				<-goOn
			})
		})
		to := n.connect(packet.V5, "to", kept)
		to.subscribe("x", 1)
		before := n.connect(packet.V5, "a", kept)
		m := text("x", "before")
		m.QoS, m.PacketID = qos, 4711
		before.send(m.Append(nil, packet.V5))
		<-began
		now := n.connect(packet.V5, "a", kept)
		close(goOn)
		to.take("before") // so its turn is over
		m = text("x", "now")
		m.QoS = 1
		if r := now.publish(m); r != packet.Success {
			t.Errorf("QoS %d: reason %v", qos, r)
		}
		to.take("now")
	}
}
