package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Options say who joins. ID is needed.
type Options struct {
	ID      string // of the bridge
	Version string // of the program
	Working Working
	Agree   map[string]string // settings in which all must agree, beside working
	Keys    map[string]string // fingerprints of secrets, by file, see [Record.Keys]
	// Rotating are the files of secrets that have versions.
	Rotating []string
	Keeps    string // address under which the bridge keeps a copy of the state; "" for none
	Labels   map[string]string
	// Newer is by how many versions what this node says to others is newer than [Wire]:
	// 0, but where tests have it pass for a bridge of another release.
	Newer int
	// Waiting is called with the reason while the node may not work yet; optional.
	Waiting func(reason string)
	Log     *slog.Logger

	epoch uint64        // no epoch is below; the time in Unix milliseconds by default
	every time.Duration // between renewals; tests make it small
}

func (o *Options) defaults() {
	if o.Working == "" {
		o.Working = One
	}
	if o.Waiting == nil {
		o.Waiting = func(string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.epoch == 0 { // new even where the stream was lost
		o.epoch = uint64(max(time.Now().UnixMilli(), 1))
	}
	if o.every == 0 {
		o.every = RenewEvery
	}
	o.Agree = maps.Clone(o.Agree)
	if o.Agree == nil {
		o.Agree = make(map[string]string)
	}
	o.Agree["cluster.working"] = string(o.Working)
}

// A Membership is this process as a node, and what it knows of the others. All
// methods may be called by several goroutines.
type Membership struct {
	o       Options
	stream  Stream // nil for who is alone
	started time.Time

	mu       sync.Mutex
	machine  *machine
	mine     Record
	current  bool // the stream was read to its end once
	members  map[string]Member
	heard    map[string]time.Duration // when the record of a node was heard last
	lonely   time.Duration            // since when no server is connected, 0 if one is
	stale    time.Duration            // since when the follower lacks what was confirmed, 0 if it does not
	refollow context.CancelFunc
	told     map[string]bool // what was logged once

	watching watchers
	counters counters
	wake     chan struct{} // holds a token when there is something to write at once
	answered chan struct{} // closed, and made anew, when it is known what became of a write
	entered  chan struct{} // closed when the node is a member
	elected  chan struct{} // closed when it is the oldest
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

// Alone is the membership of a bridge that shares its state with nobody.
func Alone(o Options) *Membership {
	o.defaults()
	m := &Membership{
		o: o, started: time.Now(), machine: newMachine(o.ID, "", 1), members: make(map[string]Member),
		entered: make(chan struct{}), elected: make(chan struct{}), lost: make(chan error, 1), stop: func() {},
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

// Self is this node.
func (m *Membership) Self() Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Node{m.o.ID, m.machine.epoch}
}

// Members are the living nodes, this one too, the oldest first.
func (m *Membership) Members() []Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Member, 0, len(m.members))
	for _, member := range m.members {
		if member = member.clone(); m.stream != nil {
			member.Age = (m.now() - m.heard[member.ID]).Milliseconds()
		}
		all = append(all, member)
	}
	slices.SortFunc(all, func(a, b Member) int { return cmp.Compare(a.Joined, b.Joined) })
	return all
}

// Alive reports whether a node is a member. One that was declared dead, or has a
// later epoch by now, is not.
func (m *Membership) Alive(n Node) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	member, ok := m.members[n.ID]
	return ok && member.Epoch == n.Epoch
}

// Shared reports whether other bridges may be nodes beside this one.
func (m *Membership) Shared() bool { return m.stream != nil }

// Catchup returns when this node knows of everybody who had joined when it was
// called, and what they had said by then: a renewal that was sent after that is
// stored after all of it, and was read. What this node was told to tell before is
// in that renewal.
func (m *Membership) Catchup(ctx context.Context) error {
	if m.stream == nil {
		return nil
	}
	called := m.now()
	look := time.NewTicker(m.o.every / 10)
	defer look.Stop()
	for {
		m.hurry()
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		m.mu.Lock()
		sent, proof, horizon, over := m.machine.sent, m.machine.proof, m.machine.horizon, m.machine.phase == fenced
		m.mu.Unlock()
		if over {
			return protocol.Errorf(protocol.StoreUnavailable, "this bridge is no member of the cluster any more")
		}
		// The renewal that was under way may have been stored before the call.
		if sent > called && horizon >= proof {
			return nil
		}
	}
}

// Keys are what the records of the living nodes have in Keys, by the id of the node.
func (m *Membership) Keys() map[string]map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]map[string]string{m.o.ID: maps.Clone(m.mine.Keys)}
	if m.machine == nil {
		return all
	}
	for _, p := range m.machine.peers {
		if _, lives := m.members[p.id]; lives && p.id != m.o.ID {
			all[p.id] = maps.Clone(p.record.Keys)
		}
	}
	return all
}

// Working says how many nodes of the cluster work at a time.
func (m *Membership) Working() Working { return m.o.Working }

// Elected is closed when this node is the oldest of the living: it then does
// what exactly one does, and is the oldest as long as it lives.
func (m *Membership) Elected() <-chan struct{} { return m.elected }

// Oldest reports whether this node is the oldest of the living.
func (m *Membership) Oldest() bool {
	select {
	case <-m.elected:
		return true
	default:
		return false
	}
}

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

// Tell changes what the record says of this node: its state, addresses, notes
// and keys. It is written at once, if nothing keeps that up.
func (m *Membership) Tell(edit func(r *Record)) {
	m.mu.Lock()
	edit(&m.mine)
	if m.stream == nil {
		m.members[m.o.ID] = m.mine.Member.clone()
	}
	m.mu.Unlock()
	m.hurry()
}

// Note tells the other nodes something of a part, such as the address of its
// relay, in at most 1 KiB; "" takes it back.
func (m *Membership) Note(part, text string) (err error) {
	if len(text) > maxNote {
		return fmt.Errorf("cluster: the note of %q takes %d bytes, %d is the limit", part, len(text), maxNote)
	}
	m.Tell(func(r *Record) {
		notes := maps.Clone(r.Notes)
		if notes == nil {
			notes = make(map[string]string)
		}
		if notes[part] = text; text == "" {
			delete(notes, part)
		}
		if len(notes) > maxNotes {
			err = fmt.Errorf("cluster: there are more than %d notes", maxNotes)
			return
		}
		r.Notes = notes
	})
	return err
}

// Watch has f called for every change from now on, one after the other, in the
// order of the stream. f must not wait. What is there already, [Membership.Members]
// tells. The function that is returned ends it.
func (m *Membership) Watch(f func(Change)) (stop func()) { return m.watching.add(f) }

// Leave ends the membership, so that the others need not notice. It is tried
// again when NATS does not confirm it, until ctx ends or the others have noticed.
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

// now is the time since the start, by a clock that nobody sets.
func (m *Membership) now() time.Duration { return time.Since(m.started) }

// hurry has the keeper write without waiting for its time.
func (m *Membership) hurry() {
	select {
	case m.wake <- struct{}{}:
	default: // it will, or there is no keeper
	}
}

// answer wakes those who wait to be sure. It is called with the mutex.
func (m *Membership) answer() {
	close(m.answered)
	m.answered = make(chan struct{})
}

// update takes up what the machine has learned of a node. It is called with the
// mutex, like all that follows.
func (m *Membership) update(id string) {
	switch {
	case m.machine.phase == fenced:
		by := m.machine.fencedBy
		m.fail(&Verdict{Node: Node{m.o.ID, m.machine.epoch}, By: cmp.Or(by.By, by.ID)})
	case m.machine.phase == member && m.machine.horizon >= m.machine.joined && !closed(m.entered):
		if err := m.admit(); err != nil {
			m.fail(err)
			return
		}
		close(m.entered)
	}
	if closed(m.entered) && m.machine.oldest() && !closed(m.elected) {
		close(m.elected)
	}
	m.compare(id)
}

// living is a node as the machine has it, if it lives.
func (m *Membership) living(id string) (Member, bool) {
	if id != m.o.ID {
		p := m.machine.peers[id]
		if p == nil || p.record.ended() {
			return Member{}, false
		}
		return p.record.Member, true
	}
	self := m.mine.Member.clone()
	self.Epoch, self.Joined, self.Revision = m.machine.epoch, m.machine.joined, m.machine.revision
	return self, m.machine.phase == member
}

// compare tells those who watch what is different of a node from before.
func (m *Membership) compare(id string) {
	before, was := m.members[id]
	now, is := m.living(id)
	same := was && is && before.Epoch == now.Epoch
	if !is {
		delete(m.heard, id)
	}
	if was && !same {
		m.watching.tell(Change{m.howEnded(before.Node), before})
	}
	switch {
	case !is:
		delete(m.members, id)
		return
	case !same:
		m.watching.tell(Change{Joined, now})
	case !sameWords(before, now):
		m.watching.tell(Change{Told, now})
	}
	m.members[id] = now
}

// howEnded says whether a node has left or was declared dead.
func (m *Membership) howEnded(n Node) ChangeKind {
	if p := m.machine.peers[n.ID]; p != nil && p.record.Epoch == n.Epoch && p.record.State == Left {
		return Departed
	}
	return Declared
}

// sameWords reports whether two records of a node say the same.
func sameWords(a, b Member) bool {
	a.Revision, b.Revision = 0, 0
	return reflect.DeepEqual(a, b)
}

// admit checks that this node fits to those that were there before it.
func (m *Membership) admit() error {
	for _, p := range m.machine.peers {
		if p.record.ended() || p.id == m.o.ID || m.machine.phase == member && p.record.Joined > m.machine.joined {
			continue
		}
		if err := m.mine.fits(&p.record); err != nil {
			return err
		}
		if err := m.mine.fitsKeys(&p.record, m.o.Rotating); err != nil && m.o.Working == All {
			return err
		} else if err != nil && !m.told[p.id] {
			m.told[p.id] = true
			m.o.Log.Warn("a bridge that takes over from the other could not open what that has sealed, nor know its API keys", "why", err)
		}
	}
	return nil
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

// fail ends the membership for a reason.
func (m *Membership) fail(err error) {
	m.ended.Do(func() {
		m.machine.phase = fenced
		m.answer()
		m.lost <- err
	})
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
