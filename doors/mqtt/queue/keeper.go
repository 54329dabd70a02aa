// Package queue keeps messages for workers that may be away: those on the topic of a
// queue wait in records until a client that has subscribed to $queue/NAME acknowledges
// them, each one of them once. Where several bridges work, a record says which of them
// has a message with a client.
package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Bounds of one message, of what is stored at once, and of all queues together, which
// every bridge has in memory.
const (
	mostPayload     = 256 << 10
	mostStoring     = 4096
	storeFor        = time.Minute
	mostAllMessages = 1_000_000
	mostAllBytes    = 1 << 30
)

// A Server is what the keeper needs of the broker.
type Server interface {
	Handle(filter string, fn func(*broker.Publication))
	Inspect(filter string, by broker.Inspector)
	Subscribers(space protocol.SpaceID, filters []string) int
	Borrowers(space protocol.SpaceID, filters []string, most int) (largest int)
	Lend(space protocol.SpaceID, filters []string, most int, m protocol.Message, done func(broker.Return)) bool
}

// A Table keeps the records of messages.
type Table interface {
	records.Table[Message]
	// CreateOnce stores a record at a key that holds nothing and has held nothing for
	// ten minutes; 3002 otherwise.
	CreateOnce(ctx context.Context, key string, m *Message) (revision uint64, err error)
}

// Options of a keeper.
type Options struct {
	Queues []Queue
	Table  Table
	// MayHear is the right of a client to subscribe to a topic.
	MayHear func(c *broker.Client, filter string) broker.Verdict
	// Self names the process where several bridges work, "" elsewhere.
	Self string
	// Gone reports whether a process is beyond doubt not there any more; with Self only.
	Gone       func(ctx context.Context, process string) bool
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// A Keeper keeps the messages of queues.
type Keeper struct {
	Options
	queues    map[string]*Queue
	again     prometheus.Counter
	refused   *prometheus.CounterVec
	died      *prometheus.CounterVec
	displaced prometheus.Counter
	server    Server
	storeFor  time.Duration // the time that storing of a message is tried
	wake      chan struct{}
	closing   chan struct{}
	working   sync.WaitGroup

	mu      sync.Mutex
	open    bool
	resting bool // clients are sent away
	storing int
	lines   map[lineKey]*line
	room    *fair.Room // of all lines
}

type lineKey struct {
	queue string
	space protocol.SpaceID
}

// Open makes a keeper of the records there are.
func Open(o Options) *Keeper {
	k := &Keeper{
		Options: o, open: true, storeFor: storeFor, queues: make(map[string]*Queue), lines: make(map[lineKey]*line), room: fair.NewRoom(mostAllMessages, mostAllBytes), wake: make(chan struct{}, 1), closing: make(chan struct{}),
		again:     prometheus.NewCounter(prometheus.CounterOpts{Name: "aibridge_queue_returned_total", Help: "Messages that went back into a queue, since their worker left without acknowledging them, or rejected them."}),
		refused:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "aibridge_queue_refused_total", Help: "Messages for which a queue had no room, by whose room it was: the publisher's share, the queue, the share of the space or all of the bridge."}, []string{"queue", "of"}),
		died:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "aibridge_queue_dead_total", Help: "Messages that became dead letters, or were dropped where none are kept: expired, or given to workers too often."}, []string{"queue", "reason"}),
		displaced: prometheus.NewCounter(prometheus.CounterOpts{Name: "aibridge_queue_dead_dropped_total", Help: "Dead letters that were dropped for newer ones."}),
	}
	for i := range o.Queues {
		q := &o.Queues[i]
		k.queues[q.Name] = q
		for _, reason := range []string{undeliverable, expired} {
			k.died.WithLabelValues(q.Name, reason) // so that the first one is an increase
		}
		if d := q.deadLetters(); d != nil {
			k.queues[d.Name] = d
		}
	}
	o.Registerer.MustRegister(k.again, k.refused, k.died, k.displaced, figures{k})
	o.Table.OnChange(k.note)
	return k
}

// Attend has the keeper take the messages of a server's clients. Call it before the
// server serves.
func (k *Keeper) Attend(server Server) {
	k.server = server
	for i := range k.Queues {
		q := &k.Queues[i]
		server.Inspect(q.Topic, func(i *broker.Inspection) broker.Verdict { return k.admit(q, i) })
		server.Handle(q.Topic, func(p *broker.Publication) { k.take(q, p) })
	}
}

func (k *Keeper) alert() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// note takes in a change of the records.
func (k *Keeper) note(key string, old, now *Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if old != nil && (now == nil || old.Queue != now.Queue || old.Space != now.Space) {
		l := k.line(old.Queue, old.Space)
		k.change(l, func(l *line) { l.remove(key) })
		if l.queue.LastValue {
			k.alert() // the newest message of its topic may have waited for that
		}
	}
	if now != nil {
		k.change(k.line(now.Queue, now.Space), func(l *line) { l.put(key, now) })
		k.alert()
	}
}

// change changes a line; mu is held.
func (k *Keeper) change(l *line, do func(*line)) {
	do(l)
	if len(l.entries)+len(l.coming) == 0 {
		delete(k.lines, lineKey{l.queue.Name, l.space})
	}
}

// line is a line, which is made if there is none; mu is held. Messages of a queue that is
// not configured any more have one too, for which nobody works.
func (k *Keeper) line(queue string, space protocol.SpaceID) *line {
	key := lineKey{queue, space}
	l := k.lines[key]
	if l == nil {
		q := k.queues[queue]
		if q == nil {
			q = &Queue{Name: queue}
		}
		l = &line{queue: q, space: space, entries: make(map[string]*entry), of: make(map[string]load), room: k.room}
		k.lines[key] = l
	}
	return l
}

// take has a publication stored. Its acknowledgement waits for that.
func (k *Keeper) take(q *Queue, p *broker.Publication) {
	if q.Space != "" && q.Space != string(p.Client.Principal().Home()) {
		return
	}
	m := messageOf(q, p, time.Now())
	key, err := uuid.NewV7()
	if err != nil {
		p.Hold()(broker.Verdict{Reason: implementation, Text: "no key for the message"})
		return
	}
	end, open := k.begin(key.String(), m)
	if !open {
		p.Hold() // without an acknowledgement, so that the client sends it again
		return
	}
	settle := p.Hold()
	go k.store(key.String(), m, end, settle)
}

// begin reserves room for a message that is about to be stored, until it is there or end
// is called; false once the keeper is closed.
func (k *Keeper) begin(key string, m *Message) (end func(), open bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open {
		return nil, false
	}
	k.working.Add(1)
	k.storing++
	k.line(m.Queue, m.Space).reserve(key, m)
	return func() {
		defer k.working.Done()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.storing--
		if l := k.lines[lineKey{m.Queue, m.Space}]; l != nil {
			k.change(l, func(l *line) { l.release(key) })
		}
	}, true
}

func (k *Keeper) store(key string, m *Message, end func(), settle func(broker.Verdict)) {
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), k.storeFor)
	defer cancel()
	err := k.persist(ctx, func(ctx context.Context) error {
		// A worker may have acknowledged what an attempt that was not confirmed has stored.
		_, err := k.Table.CreateOnce(ctx, key, m)
		return err
	})
	if err != nil {
		k.Log.Warn("a message of a queue is not stored", "queue", m.Queue, "topic", m.Topic, "error", err)
		settle(broker.Verdict{Reason: implementation, Unstored: true})
		return
	}
	settle(broker.Verdict{})
	k.dropOutdated(ctx, k.outdatedOf(m))
}

// Rest has messages that workers give back from now on not count as delivered: the bridge
// sends them away.
func (k *Keeper) Rest(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.resting = true
	return nil
}

// Close waits until everything is stored that has come. Close the server before.
func (k *Keeper) Close(ctx context.Context) error {
	k.mu.Lock()
	k.open = false
	k.mu.Unlock()
	done := make(chan struct{})
	go func() { k.working.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		close(k.closing)
		return ctx.Err()
	}
}
