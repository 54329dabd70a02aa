package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A Membership is this process as a node, and its view of the other nodes. It is safe
// for use by many goroutines.
type Membership struct {
	o       Options
	stream  Stream // nil for a bridge without a cluster, see [Alone]
	started time.Time

	mu       sync.Mutex
	machine  *machine
	mine     Record
	secrets  entry // what the state is written with; revision 0 if that is not recorded
	current  bool  // the stream was read to its end once
	caught   bool  // the present reading has come to the end, so that further records are new
	members  map[string]Member
	heard    map[string]time.Duration // when a node last wrote its record
	lonely   time.Duration            // since when no server is connected, 0 if one is
	stale    time.Duration            // since when confirmed writes have been missing in the stream as read, 0 if none are
	refollow context.CancelFunc
	told     map[string]bool // warnings that were logged already, by node
	time     *timekeeper

	watching watchers
	counters counters
	wake     chan struct{} // holds a token when a write is due at once
	answered chan struct{} // closed, and replaced, when the result of a write is known
	entered  chan struct{} // closed when the node is a member
	elected  chan struct{} // closed when it is the oldest
	timed    chan struct{} // closed when it knows the time of the cluster
	lost     chan error
	ended    sync.Once
	gone     atomic.Bool // it has left, or tried
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// Join makes this process a node, and returns when it may work. Where one works
// at a time that is once it is the oldest; a node that is declared dead while it
// waits, because it was suspended, joins anew.
func Join(ctx context.Context, stream Stream, o Options) (*Membership, error) {
	o.defaults()
	for {
		m := start(stream, o)
		err := m.await(ctx)
		if err == nil {
			return m, nil
		}
		_ = m.Leave(context.WithoutCancel(ctx)) // or it is declared dead
		if verdict := (*Verdict)(nil); !errors.As(err, &verdict) {
			return nil, err
		}
		o.Log.Warn("this bridge joins anew", "why", err)
	}
}

func start(stream Stream, o Options) *Membership {
	m := &Membership{
		o:        o,
		stream:   stream,
		started:  time.Now(),
		machine:  newMachine(o.ID, newInstance(), o.epoch),
		members:  make(map[string]Member),
		heard:    make(map[string]time.Duration),
		told:     make(map[string]bool),
		counters: newCounters(),
		wake:     make(chan struct{}, 1),
		answered: make(chan struct{}),
		entered:  make(chan struct{}),
		elected:  make(chan struct{}),
		timed:    make(chan struct{}),
		time:     newTimekeeper(o.Clock),
		lost:     make(chan error, 1),
		mine: Record{
			Schema: recordSchema, Agree: o.Agree, Keys: o.Keys,
			Member: Member{
				Node: Node{ID: o.ID}, State: Standby, Version: o.Version, Wire: Wire + o.Newer, Started: time.Now().UnixMilli(), Keeps: o.Keeps, Labels: o.Labels,
			},
		},
	}
	m.mine.Instance = m.machine.instance
	m.watching.start(&m.done)
	run, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.done.Go(func() { m.follow(run) })
	m.done.Go(func() { m.keep(run) })
	return m
}

// Alone returns the membership of a bridge that does not share its state.
func Alone(o Options) *Membership {
	o.defaults()
	m := &Membership{
		o: o, started: time.Now(), machine: newMachine(o.ID, "", 1), members: make(map[string]Member),
		entered: make(chan struct{}), elected: make(chan struct{}), lost: make(chan error, 1), stop: func() {},
		time: newTimekeeper(o.Clock),
		mine: Record{Member: Member{
			Node: Node{ID: o.ID, Epoch: 1}, State: Serving, Version: o.Version, Wire: Wire, Started: time.Now().UnixMilli(), Labels: o.Labels, Joined: 1,
		}},
	}
	m.machine.phase, m.machine.epoch, m.machine.joined = member, 1, 1
	m.members[o.ID] = m.mine.Member
	m.watching.start(&m.done)
	close(m.entered)
	close(m.elected)
	return m
}

// Leave ends the membership at once, instead of by the verdict of the others. It tries
// again while NATS does not confirm it, until ctx ends or the others have declared this
// node dead.
func (m *Membership) Leave(ctx context.Context) error {
	m.stop()
	m.watching.end()
	m.done.Wait()
	if m.stream == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, SilentAfter)
	defer cancel()
	if m.gone.Swap(true) { // if it did not succeed, it is declared dead
		return nil
	}
	return m.resign(ctx)
}

// now returns the time since the start, by the monotonic clock.
func (m *Membership) now() time.Duration { return time.Since(m.started) }

// hurry makes the keeper write without waiting for its interval.
func (m *Membership) hurry() {
	select {
	case m.wake <- struct{}{}:
	default: // it will, or there is no keeper
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
