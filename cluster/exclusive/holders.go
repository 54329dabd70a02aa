package exclusive

import (
	"context"
	"iter"
	"log/slog"
	"sync"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/internal/keylock"
	"github.com/aibridge/aibridge/protocol"
)

// Records are the records of all topics, in the registry. Update and Delete fail with
// 3003 unless expect is the revision of the record, Create fails with 3002 if there is
// a record.
type Records interface {
	Get(key string) (r *Record, revision uint64, ok bool)
	All() iter.Seq2[string, *Record]
	Create(ctx context.Context, key string, r *Record) (revision uint64, err error)
	Update(ctx context.Context, key string, r *Record, expect uint64) (revision uint64, err error)
	Delete(ctx context.Context, key string, expect uint64) error
}

// Members are the nodes of the cluster, see [cluster.Membership].
type Members interface {
	Alive(cluster.Node) bool
	Catchup(ctx context.Context) error
	Oldest() bool
}

// Owners is the directory of the bridges that own the kept sessions, see package
// cluster/sessions.
type Owners interface {
	// Owners returns the ids of the bridges, "" for a session that is not kept: as this
	// bridge knows them or, if certain, as decided by the time of the call.
	Owners(ctx context.Context, ids []broker.SessionID, certain bool) ([]string, error)
}

// A Local is the broker of this bridge, with its sessions. See the methods of
// [broker.Broker].
type Local interface {
	Exclusive(yield func(id broker.SessionID, by protocol.Party, topic string) bool)
	HasExclusive(id broker.SessionID, topic string) bool
	LoseExclusive(id broker.SessionID, topic string)
}

// Options are the dependencies of [Holders]. All but Log are required.
type Options struct {
	Self    cluster.Node // the process of this bridge
	Records Records
	// CatchUp returns when Records have everything that was stored before the call.
	CatchUp func(context.Context) error
	Members Members
	Owners  Owners
	Log     *slog.Logger
}

// Holders are the sessions of one bridge that have exclusive subscriptions. They are
// the [broker.Exclusives] of its broker.
type Holders struct {
	o     Options
	locks keylock.Locks
	wake  chan struct{} // holds a token while given has new entries
	due   chan struct{} // holds a token while all records are to be compared

	mu    sync.Mutex
	given []gift

	local   Local
	stop    context.CancelFunc
	running sync.WaitGroup
}

// A gift is a topic that a session has given back, with its record still to be deleted.
type gift struct {
	id    broker.SessionID
	topic string
	then  func() // called once the record is deleted; may be nil
}

// New returns the holders of a bridge. Records are deleted from [Holders.Start] on.
func New(o Options) *Holders {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Holders{o: o, wake: make(chan struct{}, 1), due: make(chan struct{}, 1), stop: func() {}}
}

// Take implements [broker.Exclusives].
func (h *Holders) Take(ctx context.Context, id broker.SessionID, by protocol.Party, topic string) (done func(), err error) {
	unlock, err := h.locks.Lock(ctx, keyOf(id.Space, topic))
	if err != nil {
		return nil, err
	}
	if err = h.take(ctx, id, by, topic); err == nil {
		return unlock, nil
	}
	if err != broker.ErrHeld && !h.local.HasExclusive(id, topic) { // the record may be stored although that was not confirmed
		h.Give(id, topic, nil)
	}
	unlock()
	return nil, err
}

// take makes the record of a topic name a session and this process. The lock of the
// topic is held.
func (h *Holders) take(ctx context.Context, id broker.SessionID, by protocol.Party, topic string) error {
	key := keyOf(id.Space, topic)
	record := &Record{Space: id.Space, Topic: topic, Client: id.Client, Process: h.o.Self, For: by}
	for {
		r, revision, there := h.o.Records.Get(key)
		var err error
		switch {
		case !there:
			_, err = h.o.Records.Create(ctx, key, record)
		case r.session() == id && r.Process == h.o.Self:
			return nil
		case r.session() == id:
			_, err = h.o.Records.Update(ctx, key, record, revision)
		default:
			if err = h.invalid(ctx, key, revision); err == nil {
				_, err = h.o.Records.Update(ctx, key, record, revision)
			}
		}
		if err == nil || !changed(err) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// changed reports whether a write failed because the record had another revision than
// expected.
func changed(err error) bool {
	code := protocol.CodeOf(err)
	return code == protocol.RevisionConflict || code == protocol.AlreadyExists || code == protocol.NotFound
}

// errChanged makes take read the record again.
var errChanged = protocol.Errorf(protocol.RevisionConflict, "the record has changed")

// invalid returns nil if the record of another session is invalid, and [broker.ErrHeld]
// if it is valid.
func (h *Holders) invalid(ctx context.Context, key string, revision uint64) error {
	if err := h.o.CatchUp(ctx); err != nil {
		return err
	}
	r, present, there := h.o.Records.Get(key)
	if !there || present != revision {
		return errChanged
	}
	counts, err := h.counts(ctx, r)
	if err == nil && counts {
		return broker.ErrHeld
	}
	return err
}

// counts reports whether a record is valid. False is certain; true may be out of date.
func (h *Holders) counts(ctx context.Context, r *Record) (bool, error) {
	if h.o.Members.Alive(r.Process) {
		return true, nil
	}
	if err := h.o.Members.Catchup(ctx); err != nil { // the process may have joined a moment ago
		return true, err
	}
	owners, err := h.o.Owners.Owners(ctx, []broker.SessionID{r.session()}, true)
	if err != nil {
		return true, err
	}
	return r.counts(owners[0], h.o.Members.Alive), nil
}

// Enter implements [broker.Exclusives].
func (h *Holders) Enter(ctx context.Context, id broker.SessionID, by protocol.Party, topics []string) error {
	for _, topic := range topics {
		done, err := h.Take(ctx, id, by, topic)
		if err == broker.ErrHeld { // [Holders.look] ends the subscription
			h.Look()
			continue
		}
		if err != nil {
			return err
		}
		done()
	}
	return nil
}

// Give implements [broker.Exclusives].
func (h *Holders) Give(id broker.SessionID, topic string, then func()) {
	h.mu.Lock()
	h.given = append(h.given, gift{id, topic, then})
	h.mu.Unlock()
	signal(h.wake)
}

// Look makes all records be compared with the subscriptions soon, since bridges have
// come or gone. It does not block.
func (h *Holders) Look() { signal(h.due) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
