package estate

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/cluster/relay"
	"github.com/aibridge/aibridge/protocol"
)

// Records are the estates of all bridges by id, in the registry. Update fails with 3003
// unless the given revision is the present one, and Create with 3002 if the record
// exists.
type Records interface {
	Get(bridge string) (r *Record, revision uint64, ok bool)
	All() iter.Seq2[string, *Record]
	Create(ctx context.Context, bridge string, r *Record) (revision uint64, err error)
	Update(ctx context.Context, bridge string, r *Record, expect uint64) (revision uint64, err error)
}

// Members are the nodes of the cluster, see [cluster.Membership].
type Members interface {
	Self() cluster.Node
	Members() []cluster.Member
	Catchup(ctx context.Context) error
}

// A Server serves the sessions of a bridge that has ended.
type Server interface {
	// Reconcile sets the members that may publish to the sessions.
	Reconcile(members []relay.Member)
	// Vacant reports whether there are no sessions; Count is their number.
	Vacant() bool
	Count() int
	// Close ends the service; publications not accepted by then go to the next holder.
	// It reports whether there are no sessions left.
	Close(ctx context.Context) (vacant bool)
}

// Options are the dependencies of [Estates]. All but Log and Registerer are required.
type Options struct {
	Records Records
	Members Members
	// Serve opens the journal of a bridge, which takes it away from any process that
	// still writes to it, and serves its sessions under the number of a run.
	Serve func(ctx context.Context, bridge string, run uint64) (Server, error)
	// Ready reports whether a member accepts relayed publications.
	Ready      func(cluster.Member) bool
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Estates are the estates of all bridges: this bridge serves those that fall to it.
type Estates struct {
	o       Options
	wake    chan struct{} // holds a token when a check is due
	metrics *metrics

	// Of the goroutine of Run.
	held  map[string]Server    // by bridge
	pause map[string]time.Time // until when a bridge's is not tried again
}

// New returns the estates of a cluster. [Estates.Wake] is to be called when records
// or members change.
func New(o Options) *Estates {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Estates{o: o, wake: make(chan struct{}, 1), held: make(map[string]Server), pause: make(map[string]time.Time)}
	e.metrics = newMetrics(o.Registerer)
	return e
}

// Wake requests a check of all estates. It does not block.
func (e *Estates) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Take makes this process the holder of its bridge's own estate. It waits while
// another bridge that is alive serves the sessions there, which gives them back.
func (e *Estates) Take(ctx context.Context) error {
	if err := e.o.Members.Catchup(ctx); err != nil {
		return err
	}
	self := e.o.Members.Self()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	slow := time.After(5 * time.Second)
	for {
		record, revision, there := e.o.Records.Get(self.ID)
		var err error
		switch {
		case there && record.Holder == self:
			return nil
		case there && record.adopted(self.ID) && e.living().runs(record.Holder):
			select {
			case <-look.C:
			case <-slow:
				e.o.Log.Warn("this bridge waits for its sessions, which another one serves", "bridge", record.Holder.ID)
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		case there && record.Run >= self.Epoch:
			return protocol.Errorf(protocol.StoreUnavailable, "the clock of this machine is behind: it says %s, and this bridge is known by a number of %s; set the clock, and start it again", moment(self.Epoch), moment(record.Run))
		case there:
			_, err = e.o.Records.Update(ctx, self.ID, &Record{Holder: self, Run: self.Epoch}, revision)
		default:
			_, err = e.o.Records.Create(ctx, self.ID, &Record{Holder: self, Run: self.Epoch})
		}
		if code := protocol.CodeOf(err); err != nil && code != protocol.RevisionConflict && code != protocol.AlreadyExists {
			return err
		}
	}
}

// moment is the time that a number of a run stands for.
func moment(run uint64) string { return time.UnixMilli(int64(run)).UTC().Format(time.RFC3339) }

// Holds reports whether this process has the estate of another bridge.
func (e *Estates) Holds(bridge string) bool {
	r, _, there := e.o.Records.Get(bridge)
	self := e.o.Members.Self()
	return there && r.Holder == self && bridge != self.ID
}

// ServedBy returns the bridge that serves the sessions of one that has ended; "" if they
// are not served, or by the bridge itself.
func (e *Estates) ServedBy(bridge string) string {
	r, _, there := e.o.Records.Get(bridge)
	if !there || r.Vacant || !r.adopted(bridge) || !e.living().runs(r.Holder) {
		return ""
	}
	return r.Holder.ID
}

// A census is the living members by bridge.
type census map[string]cluster.Member

func (e *Estates) living() census {
	all := e.o.Members.Members()
	c := make(census, len(all))
	for _, m := range all {
		c[m.ID] = m
	}
	return c
}

// runs reports whether a process is a member.
func (c census) runs(n cluster.Node) bool {
	m, there := c[n.ID]
	return there && m.Epoch == n.Epoch
}

// Peers returns the bridges to which publications are relayed: the living ones, and
// dead ones with sessions.
func (e *Estates) Peers() (peers []relay.Member) {
	self, living := e.o.Members.Self().ID, e.living()
	for id, m := range living {
		if id != self {
			peers = append(peers, e.peer(m, living))
		}
	}
	for bridge, r := range e.o.Records.All() {
		if _, lives := living[bridge]; lives || r.Vacant || bridge == self {
			continue
		}
		p := relay.Member{Node: relay.Node{ID: bridge, Epoch: r.Run}}
		if r.adopted(bridge) && living.runs(r.Holder) {
			p = living.adopted(bridge, r)
		} else {
			p.Waits = true
		}
		peers = append(peers, p)
	}
	return peers
}

// peer returns a living bridge as a member of the relay. It is waiting until it has
// loaded its sessions.
func (e *Estates) peer(m cluster.Member, living census) relay.Member {
	p := relay.Member{Node: relay.Node(m.Node), Ready: e.o.Ready(m), Wire: m.Wire}
	r, _, there := e.o.Records.Get(m.ID)
	switch {
	case p.Ready || !there || r.Vacant:
	case r.adopted(m.ID) && living.runs(r.Holder):
		return living.adopted(m.ID, r)
	default:
		p.Waits = true
	}
	return p
}

// adopted returns a bridge whose sessions a living one serves, which speaks for it.
func (c census) adopted(bridge string, r *Record) relay.Member {
	return relay.Member{Node: relay.Node{ID: bridge, Epoch: r.Run}, Ready: true, Adopted: true, Wire: c[r.Holder.ID].Wire}
}

// publishers returns the bridges that may publish: all members.
func (e *Estates) publishers() (all []relay.Member) {
	for _, m := range e.o.Members.Members() {
		all = append(all, relay.Member{Node: relay.Node(m.Node), Ready: e.o.Ready(m), Wire: m.Wire})
	}
	return all
}
