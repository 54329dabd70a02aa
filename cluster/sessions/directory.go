package sessions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
)

// A Log is a stream that all bridges write and read. Package store has it on
// JetStream.
type Log interface {
	// Append stores a message and returns its position, counted from 1. Of messages
	// with one id the first is stored. After an error it may be stored.
	Append(ctx context.Context, id string, data []byte) (position uint64, err error)
	// Follow calls take for every message in order, from the first one that the log
	// still has, and current once after those stored by the time of the call. It
	// returns when ctx ends.
	Follow(ctx context.Context, current func(), take func(position uint64, data []byte))
	// Trim forgets the messages before a position.
	Trim(ctx context.Context, before uint64) error
}

// Options are the dependencies of a directory. Self, Secret and Log are required.
type Options struct {
	Self   Node
	Secret *Secret
	Log    Log
	// Say sends a message to the directory of another process; with behind, behind all
	// publications relayed to it. It reports false if it cannot be sent now.
	Say func(to Node, word []byte, behind bool) bool
	// Oldest reports whether this bridge is the one that keeps the log short.
	Oldest     func() bool
	Logger     *slog.Logger
	Registerer prometheus.Registerer // optional
}

// A Directory is one bridge's part in the assignment of sessions to bridges: its
// [broker.Directory].
type Directory struct {
	o        Options
	machine  *machine
	follower follower
	metrics  *metrics

	mu     sync.Mutex
	events []func()
	wake   chan struct{}

	run     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	current chan struct{} // closed when the log was read to its end once
	caught  bool
	entries chan written

	unsaid  map[hearer][][]byte // words that could not be sent yet
	stated  uint64              // position of the last table in the log
	stating bool
}

// A hearer is a process with the order in which it hears words.
type hearer struct {
	Node
	behind bool // all publications; otherwise ahead of those that wait
}

// A written is an entry on its way to the log.
type written struct {
	tag  uint64
	data []byte
}

const (
	retryAfter = 100 * time.Millisecond
	sayAfter   = 20 * time.Millisecond
	// stateAfter is the number of messages since the last table after which the table
	// is written anew, plus one for every 64 sessions in it.
	stateAfter = 4096
)

// New returns a directory. It takes part once it has begun.
func New(o Options) *Directory {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Oldest == nil {
		o.Oldest = func() bool { return false }
	}
	d := &Directory{
		o: o, wake: make(chan struct{}, 1), current: make(chan struct{}), entries: make(chan written, 1), unsaid: make(map[hearer][][]byte),
	}
	d.machine = newMachine(o.Self, o.Secret, nil, d.send)
	d.machine.later = d.post
	d.machine.fresh = func() uint32 { return uint32(time.Now().Unix()) }
	d.follower.table = d.machine.table
	d.metrics = newMetrics(d)
	d.run, d.stop = context.WithCancel(context.Background())
	return d
}

// Begin invalidates later writes of earlier processes of the bridge, and returns when
// this one knows the owners of all sessions.
func (d *Directory) Begin(ctx context.Context) error {
	d.running.Go(d.work)
	d.running.Go(d.writeEntries)
	d.running.Go(func() {
		d.o.Log.Follow(d.run, func() { d.post(func() { d.caught = true; d.caughtUp() }) }, func(position uint64, data []byte) {
			data = append([]byte(nil), data...)
			d.post(func() { d.take(position, data) })
		})
	})
	select {
	case <-d.current:
	case <-ctx.Done():
		return ctx.Err()
	}
	begun := make(chan bool, 1)
	d.post(func() { d.machine.write(Record{Kind: Begin}, func(counts bool) { begun <- counts }) })
	select {
	case ok := <-begun:
		if !ok {
			return fmt.Errorf("sessions: a later process of bridge %q has begun", d.o.Self.ID)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Start connects the directory with its broker.
func (d *Directory) Start(local Local) {
	done := make(chan struct{})
	d.post(func() {
		d.machine.serve(local)
		close(done)
	})
	select {
	case <-done:
	case <-d.run.Done():
	}
}

// Close ends all work.
func (d *Directory) Close() {
	d.stop()
	d.running.Wait()
}

// post queues a function for the goroutine that runs the machine, in order.
func (d *Directory) post(event func()) {
	d.mu.Lock()
	d.events = append(d.events, event)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *Directory) work() {
	again := time.NewTicker(sayAfter)
	defer again.Stop()
	for {
		select {
		case <-d.wake:
		case <-again.C:
			d.sayAgain()
			continue
		case <-d.run.Done():
			return
		}
		d.mu.Lock()
		events := d.events
		d.events = nil
		d.mu.Unlock()
		for _, event := range events {
			event()
		}
		d.writeNext()
		d.keepShort()
	}
}

// take handles a message of the log.
func (d *Directory) take(position uint64, data []byte) {
	was := d.follower.behind
	err := d.follower.take(position, data, func(e *Entry) { d.machine.applied(position, e) })
	if err != nil {
		d.o.Logger.Error("a record of who owns which session cannot be read", "position", position, "error", err)
	}
	d.machine.position = position
	if was && !d.follower.behind {
		d.stated = position
		d.machine.writes.settle(d.machine.table, d.o.Self.ID, position)
		d.machine.lookAll()
		d.caughtUp()
	}
	d.machine.reached()
}

// caughtUp notes that the log was read to its end once, and the table is known.
func (d *Directory) caughtUp() {
	if d.caught && !d.follower.behind {
		select {
		case <-d.current:
		default:
			close(d.current)
		}
	}
}

// writeNext starts to write the next entry, if none is on its way.
func (d *Directory) writeNext() {
	if e, ok := d.machine.writes.cut(d.o.Self); ok {
		d.entries <- written{e.Tag, e.append(nil)}
	}
}

func (d *Directory) writeEntries() {
	for {
		select {
		case w := <-d.entries:
			position, err := d.append(fmt.Sprintf("%s/%d", d.o.Self, w.tag), w.data)
			if err != nil {
				return
			}
			d.post(func() {
				d.machine.writes.stored(w.tag, position)
				if !d.follower.behind && position <= d.follower.position {
					d.machine.writes.settle(d.machine.table, d.o.Self.ID, d.follower.position)
				}
			})
		case <-d.run.Done():
			return
		}
	}
}

// append stores a message, however long it takes, until the directory is closed.
func (d *Directory) append(id string, data []byte) (position uint64, err error) {
	for told := false; ; told = true {
		began := time.Now()
		position, err = d.o.Log.Append(d.run, id, data)
		if err == nil {
			d.metrics.writing.Observe(time.Since(began).Seconds())
			return position, nil
		}
		if d.run.Err() != nil {
			return 0, d.run.Err()
		}
		if !told {
			d.o.Logger.Warn("who owns which session cannot be written; it is tried again", "error", err)
		}
		select {
		case <-time.After(retryAfter):
		case <-d.run.Done():
		}
	}
}

// keepShort writes the whole table, and has the log begin there, when it has grown.
func (d *Directory) keepShort() {
	grown := d.follower.position - d.stated
	if d.stating || d.follower.behind || grown < stateAfter+uint64(d.machine.table.Len()/64) || !d.o.Oldest() {
		return
	}
	d.stating = true
	at := d.follower.position
	parts := d.machine.table.split(d.o.Self, at)
	d.running.Go(func() {
		for i := range parts {
			if _, err := d.append(fmt.Sprintf("%s/state/%d/%d", d.o.Self, at, i), parts[i].append(nil)); err != nil {
				return
			}
		}
		if err := d.o.Log.Trim(d.run, at+1); err != nil {
			d.o.Logger.Warn("the log of who owns which session is not trimmed", "error", err)
		}
		d.post(func() { d.stated, d.stating = at, false })
	})
}

// send sends a message, or keeps it until it can be sent.
func (d *Directory) send(to Node, m *message) {
	word, by := m.append(nil, to.Epoch), hearer{to, m.isBehind()}
	if len(d.unsaid[by]) > 0 || !d.o.Say(to, word, by.behind) {
		d.unsaid[by] = append(d.unsaid[by], word)
	}
}

func (d *Directory) sayAgain() {
	for to, words := range d.unsaid {
		if !d.machine.alive(to.Node) {
			delete(d.unsaid, to)
			continue
		}
		for len(words) > 0 && d.o.Say(to.Node, words[0], to.behind) {
			words = words[1:]
		}
		if d.unsaid[to] = words; len(words) == 0 {
			delete(d.unsaid, to)
		}
	}
}

// Enter implements [broker.Directory].
func (d *Directory) Enter(ctx context.Context, e broker.Entering) (broker.Admission, error) {
	type answer struct {
		admission broker.Admission
		err       error
	}
	answered := make(chan answer, 1)
	began := time.Now()
	o := &entering{
		since: began.UnixNano(), party: e.Party, clean: e.Clean, kept: e.Kept,
		answer: func(a broker.Admission, err error) { answered <- answer{a, err} },
	}
	d.post(func() { d.machine.begin(e.ID, func(p *place) operation { o.p = p; return o }) })
	select {
	case a := <-answered:
		if a.err == nil && o.moved {
			d.metrics.took.Observe(time.Since(began).Seconds())
		}
		return a.admission, a.err
	case <-ctx.Done():
	case <-d.run.Done():
	}
	d.post(func() { o.giveUp(d.machine) })
	return broker.Admission{}, broker.ErrUnavailable
}

// Left implements [broker.Directory].
func (d *Directory) Left(id broker.SessionID) { d.post(func() { d.machine.left(id) }) }

// Settled implements [broker.Directory].
func (d *Directory) Settled(id broker.SessionID) { d.post(func() { d.machine.settled(id) }) }

// Restored implements [broker.Directory].
func (d *Directory) Restored(ctx context.Context, held []broker.Held) ([]uint32, error) {
	epochs := make([]uint32, len(held))
	done := make(chan struct{})
	d.post(func() { d.machine.restored(held, epochs, func() { close(done) }) })
	select {
	case <-done:
		return epochs, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-d.run.Done():
		return nil, errClosed
	}
}

// Owners returns the ids of the bridges that own sessions, "" for those that are not
// kept: as this bridge knows them or, if certain, as the log has them by now.
func (d *Directory) Owners(ctx context.Context, ids []broker.SessionID, certain bool) ([]string, error) {
	owners := make([]string, len(ids))
	done := make(chan struct{})
	look := func() {
		for i, id := range ids {
			owners[i] = d.machine.table.Owner(d.o.Secret.Key(id)).Bridge
		}
		close(done)
	}
	d.post(func() {
		if certain { // a record without effect: no session has such an owner
			d.machine.write(Record{Kind: Release, Key: d.o.Secret.Key(ids[0]), From: Owner{Epoch: math.MaxUint32}}, func(bool) { look() })
			return
		}
		look()
	})
	select {
	case <-done:
		return owners, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-d.run.Done():
		return nil, errClosed
	}
}

var errClosed = errors.New("sessions: the directory is closed")

// Joined adds processes of other bridges, all at once: a session goes to one of them
// only after all have confirmed their earlier publications.
func (d *Directory) Joined(nodes ...Node) {
	d.post(func() {
		for _, n := range nodes {
			d.join(n)
		}
	})
}

func (d *Directory) join(n Node) {
	if !d.machine.alive(n) {
		d.machine.reconcile(append(d.machine.members()[:len(d.machine.living):len(d.machine.living)], n))
	}
}

// Heard handles a message of the directory of another process, see [Options].Say.
func (d *Directory) Heard(from Node, word []byte) {
	m, to, err := parseMessage(word)
	if err != nil {
		d.o.Logger.Error("a malformed message about a session from another bridge", "bridge", from.ID, "error", err)
		return
	}
	if to == d.o.Self.Epoch {
		d.post(func() {
			d.join(from)
			d.machine.take(from, &m)
		})
	}
}

// Ended removes a process that is dead or has left.
func (d *Directory) Ended(n Node) {
	d.post(func() {
		var left []Node
		for _, other := range d.machine.living {
			if other != n {
				left = append(left, other)
			}
		}
		delete(d.unsaid, hearer{n, false})
		delete(d.unsaid, hearer{n, true})
		d.machine.reconcile(left)
	})
}
