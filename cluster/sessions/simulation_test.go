package sessions

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// A world is some bridges that share a log. Everything that happens in it is a
// step of its own, in an order that rapid chooses: messages and the log are late,
// processes are killed between any two steps and start again, and what they were
// writing is stored or not.
type world struct {
	t        *rapid.T
	secret   Secret
	log      [][]byte
	nodes    map[string]*process // that run
	resting  map[string]*process // that were killed, by bridge
	late     [][]byte            // entries of dead processes, which may still be stored
	links    map[[2]Node][]word
	slow     map[string]bool // links, by the ids of their ends, on which publications wait until nothing else can happen
	number   int
	epochs   map[string]uint64
	accepted map[int]bool // publications that all whom they were for have
	// firm are those that somebody has who owns the session: what comes to a bridge
	// that expects it, while its owner is dead, is lost with the expectation.
	firm map[int]bool
	// proper are those that were published when somebody who owns the session was there
	// for them. They keep their order.
	proper map[int]bool
	owing  map[int]map[Node]bool
	to     map[int]broker.SessionID // whom publications are for
	ledger map[string][]publication // what clients were given
	clock  int64
	done   int // clients that got in
}

type publication struct {
	Number int
	By     string // process
}

// A word is what travels between two processes.
type word struct {
	kind string // "machine", "subscribed", "unsubscribed", "known", "publish"
	data []byte
	id   broker.SessionID
	pub  publication
	ask  int
	// behind is set of words that arrive behind all others; the rest overtake these.
	behind bool
}

// A process is one run of a bridge: its machine, and a broker that stores all that
// it has at once.
type process struct {
	w        *world
	self     Node
	m        *machine
	f        follower
	followed int
	events   []func()
	outbox   []byte
	tag      uint64
	stored   map[broker.SessionID]*simulated
	clients  map[broker.SessionID]bool          // connected
	knows    map[Node]map[broker.SessionID]bool // what others subscribe to
	told     []announcement
	asks     int
	dead     bool
}

type announcement struct {
	ask   int
	wants map[Node]bool
	then  func()
}

type simulated struct {
	kept   bool
	moving byte // 0, 'a'rriving, 'l'eaving
	epoch  uint32
	since  int64
	queue  []publication
	had    map[int]bool // came with the session, and may come again
}

var people = []broker.SessionID{{Space: "default", Client: "x"}, {Space: "default", Client: "y"}}

func (p *process) Here(id broker.SessionID) (broker.Standing, int64) {
	s := p.stored[id]
	switch {
	case s == nil || s.moving == 'a':
		return broker.Absent, 0
	case s.kept:
		return broker.Kept, s.since
	}
	return broker.Clean, s.since
}

func (p *process) All(yield func(broker.SessionID, int64) bool) {
	for _, id := range people {
		if here, since := p.Here(id); here != broker.Absent && !yield(id, since) {
			return
		}
	}
}

func (p *process) Offer(id broker.SessionID, _ protocol.Party, clean bool) ([]byte, broker.OfferResult) {
	s := p.stored[id]
	delete(p.clients, id)
	if clean || !s.kept {
		p.forget(id)
		p.post(func() { p.m.left(id) })
		return nil, broker.OfferEnded
	}
	s.moving = 'l'
	return []byte("offer"), broker.Offered
}

func (p *process) forget(id broker.SessionID) {
	if s := p.stored[id]; s != nil {
		p.w.t.Logf("%s forgets %s: %c %v, owner %v", p.self, id.Client, s.moving, s.queue, p.m.table.Owner(p.w.secret.Key(id)))
	}
	delete(p.stored, id)
	delete(p.clients, id)
	p.announce("unsubscribed", id, nil)
}

func (p *process) announce(kind string, id broker.SessionID, then func()) {
	p.asks++
	a := announcement{ask: p.asks, wants: map[Node]bool{}, then: then}
	for _, n := range p.m.living {
		a.wants[n] = true
		p.w.link(p.self, n, word{kind: kind, id: id, ask: p.asks})
	}
	if then != nil {
		p.told = append(p.told, a)
		p.knownTo()
	}
}

// knownTo calls those whose announcements all know.
func (p *process) knownTo() {
	p.told = slices.DeleteFunc(p.told, func(a announcement) bool {
		for n := range a.wants {
			if !p.m.alive(n) {
				delete(a.wants, n)
			}
		}
		if len(a.wants) == 0 {
			p.post(a.then)
		}
		return len(a.wants) == 0
	})
}

func (p *process) Expect(id broker.SessionID, _ []byte, epoch uint32, known func()) error {
	if p.stored[id] != nil {
		p.w.t.Fatalf("%s expects %s, which it has", p.self, id.Client)
	}
	p.stored[id] = &simulated{kept: true, moving: 'a', epoch: epoch}
	p.announce("subscribed", id, known)
	return nil
}

func (p *process) Cut(id broker.SessionID) ([]byte, bool) {
	if rapid.IntRange(0, 4).Draw(p.w.t, "unsettled") == 0 {
		p.post(func() { p.m.settled(id) })
		return nil, false
	}
	s := p.stored[id]
	if s == nil || s.moving != 'l' {
		p.w.t.Fatalf("%s cuts %s, which it has not offered", p.self, id.Client)
	}
	data, _ := json.Marshal(s.queue)
	return data, true
}

func (p *process) Take(id broker.SessionID, state []byte, stored func()) error {
	s := p.stored[id]
	own := s.queue
	s.queue = nil
	if err := json.Unmarshal(state, &s.queue); err != nil {
		return err
	}
	s.had = map[int]bool{}
	for _, pub := range s.queue {
		s.had[pub.Number] = true
	}
	for _, pub := range own {
		if !s.had[pub.Number] {
			s.queue = append(s.queue, pub)
		}
	}
	p.post(stored)
	return nil
}

func (p *process) AllCame(id broker.SessionID) {
	if s := p.stored[id]; s != nil {
		s.had = nil
	}
}

func (p *process) Own(id broker.SessionID) {
	s := p.stored[id]
	s.moving = 0
	for _, pub := range s.queue {
		p.w.firm[pub.Number] = true
	}
}

func (p *process) Drop(id broker.SessionID) {
	if p.stored[id] != nil {
		p.forget(id)
	}
}

func (p *process) Resume(id broker.SessionID, epoch uint32) {
	s := p.stored[id]
	s.moving, s.epoch = 0, epoch
}

func (p *process) Supersede(id broker.SessionID) {
	delete(p.clients, id)
	if p.stored[id].kept {
		return
	}
	p.forget(id)
	p.post(func() { p.m.left(id) })
}

func (p *process) Quiesce() {}

func (p *process) post(event func()) { p.events = append(p.events, event) }

func (w *world) link(from, to Node, x word) {
	w.links[[2]Node{from, to}] = append(w.links[[2]Node{from, to}], x)
}

// start starts a process of a bridge, on what the one before has stored.
func (w *world) start(id string) {
	w.epochs[id]++
	p := &process{
		w: w, self: Node{id, w.epochs[id]}, stored: map[broker.SessionID]*simulated{}, clients: map[broker.SessionID]bool{},
		knows: map[Node]map[broker.SessionID]bool{},
	}
	p.m = newMachine(p.self, &w.secret, p, func(to Node, m *message) {
		w.t.Logf("%s tells %s kind %d op %d of %s", p.self, to, m.kind, m.op, m.id.Client)
		w.link(p.self, to, word{kind: "machine", data: m.append(nil, to.Epoch), behind: m.isBehind()})
	})
	p.m.later = p.post
	p.m.fresh = func() uint32 { w.clock++; return uint32(w.clock) * 1000 }
	p.f.table = p.m.table
	p.m.write(Record{Kind: Begin}, func(counts bool) {
		if !counts {
			w.t.Fatalf("%s does not begin", p.self)
		}
	})
	before := w.resting[id]
	delete(w.resting, id)
	w.catchUp(p)
	if before != nil {
		p.load(before)
	}
	p.m.registerAll()
	for _, name := range sortedKeys(w.nodes) {
		other := w.nodes[name]
		if before != nil {
			other.gone(before.self)
		}
		for id := range other.stored {
			p.learn(other.self, id, true)
		}
		for id := range p.stored {
			other.learn(p.self, id, true)
		}
		other.m.reconcile(append(slices.Clone(other.m.living), p.self))
		p.m.reconcile(append(slices.Clone(p.m.living), other.self))
	}
	w.nodes[id] = p
}

// load has a process have what the one before has stored, as far as it is its own.
func (p *process) load(before *process) {
	var held []broker.Held
	for _, id := range people {
		if s := before.stored[id]; s != nil && s.kept {
			held = append(held, broker.Held{ID: id, Epoch: s.epoch})
		}
	}
	epochs, done := make([]uint32, len(held)), false
	p.m.restored(held, epochs, func() { done = true })
	p.w.catchUp(p)
	if !done {
		p.w.t.Fatalf("%s does not know what is its own", p.self)
	}
	p.w.t.Logf("%s has %v %v", p.self, held, epochs)
	for i, epoch := range epochs {
		if epoch != 0 {
			s := *before.stored[held[i].ID]
			s.moving, s.epoch, s.had = 0, epoch, nil
			p.stored[held[i].ID] = &s
		}
	}
}

// catchUp has a process write all that it has to, and read the log to its end.
func (w *world) catchUp(p *process) {
	for {
		p.write()
		p.land()
		if p.followed == len(w.log) {
			return
		}
		p.follow()
	}
}

func (p *process) write() {
	if e, ok := p.m.writes.cut(p.self); ok {
		p.outbox, p.tag = e.append(nil), e.Tag
	}
}

func (p *process) land() {
	if p.outbox != nil {
		p.w.log = append(p.w.log, p.outbox)
		p.outbox = nil
		p.m.writes.stored(p.tag, uint64(len(p.w.log)))
	}
}

func (p *process) follow() {
	p.followed++
	at := uint64(p.followed)
	if err := p.f.take(at, p.w.log[at-1], func(e *Entry) { p.m.applied(at, e) }); err != nil {
		p.w.t.Fatal(err)
	}
	p.m.reached()
}

func (p *process) learn(of Node, id broker.SessionID, is bool) {
	if p.knows[of] == nil {
		p.knows[of] = map[broker.SessionID]bool{}
	}
	p.knows[of][id] = is
}

// gone tells a process that another is no more.
func (p *process) gone(n Node) {
	if !p.m.alive(n) {
		return
	}
	delete(p.w.links, [2]Node{n, p.self})
	delete(p.knows, n)
	p.m.reconcile(slices.DeleteFunc(slices.Clone(p.m.living), func(o Node) bool { return o == n }))
	p.knownTo()
	for _, owing := range p.w.owing { // what was for it is not owed by it any more
		delete(owing, n)
	}
}

// kill ends a process. What it was writing may be stored later.
func (w *world) kill(id string) {
	p := w.nodes[id]
	w.t.Logf("%s is killed", p.self)
	delete(w.nodes, id)
	p.dead = true
	w.resting[id] = p
	if p.outbox != nil {
		w.late = append(w.late, p.outbox)
	}
	for ends := range w.links {
		if ends[1] == p.self {
			delete(w.links, ends)
		}
	}
	for number, owing := range w.owing {
		if owing[p.self] {
			delete(w.owing, number) // never acknowledged
		}
	}
}

// connect has a client connect.
func (w *world) connect(p *process, id broker.SessionID, kept, clean bool) {
	w.clock++
	o := &entering{since: w.clock, kept: kept, clean: clean}
	o.answer = func(a broker.Admission, err error) {
		if err != nil {
			return
		}
		p.post(func() {
			p.attach(id, o, a)
			a.Done()
		})
	}
	p.m.begin(id, func(at *place) operation { o.p = at; return o })
}

func (p *process) attach(id broker.SessionID, o *entering, a broker.Admission) {
	s := p.stored[id]
	if s != nil && s.moving != 0 {
		p.w.t.Fatalf("%s lets a client have what is moving", p.self)
	}
	if s != nil && o.clean {
		p.forget(id)
		s = nil
	}
	if s == nil {
		s = new(simulated)
		p.stored[id] = s
		p.announce("subscribed", id, nil)
	}
	p.w.t.Logf("%s lets %s in", p.self, id.Client)
	s.kept, s.epoch, s.since = o.kept, a.Epoch, o.since
	p.clients[id] = true
	if len(p.m.table.Owner(p.w.secret.Key(id)).Bridge) == 0 && o.kept {
		p.w.t.Fatalf("%s lets %s in, which is to be kept, and nobody owns it", p.self, id.Client)
	}
	p.w.done++
	if s.kept {
		for _, other := range p.w.nodes {
			if here, _ := other.Here(id); other != p && here == broker.Kept && other.stored[id].moving != 'l' {
				p.w.t.Fatalf("%s and %s have %s", p.self, other.self, id.Client)
			}
		}
	}
}

// publish has a bridge publish to a session.
func (w *world) publish(p *process, id broker.SessionID) {
	w.number++
	pub := publication{w.number, p.self.String()}
	w.to[pub.Number] = id
	owing := map[Node]bool{}
	if s := p.stored[id]; s != nil && s.kept {
		s.queue = append(s.queue, pub)
		w.accepted[pub.Number] = true
		w.firm[pub.Number] = w.firm[pub.Number] || s.moving != 'a'
	}
	for n, has := range p.knows {
		if has[id] && p.m.alive(n) {
			owing[n] = true
			w.link(p.self, n, word{kind: "publish", id: id, pub: pub, behind: true})
		}
	}
	w.proper[pub.Number] = p.owns(id)
	for n := range owing {
		other := w.nodes[n.ID]
		w.proper[pub.Number] = w.proper[pub.Number] || other != nil && other.self == n && other.owns(id)
	}
	w.t.Logf("%s publishes %d to %s: here %v, and %v", p.self, pub.Number, id.Client, p.stored[id], owing)
	if len(owing) > 0 {
		delete(w.accepted, pub.Number)
		w.owing[pub.Number] = owing
	}
}

// owns reports whether a process has a session that is not on its way to it.
func (p *process) owns(id broker.SessionID) bool {
	s := p.stored[id]
	return s != nil && s.kept && s.moving != 'a'
}

// deliver delivers a word of a link: the next one, or the next that overtakes.
func (w *world) deliver(ends [2]Node, at int) {
	words := w.links[ends]
	x := words[at]
	if w.links[ends] = slices.Delete(slices.Clone(words), at, at+1); len(words) == 1 {
		delete(w.links, ends)
	}
	p := w.nodes[ends[1].ID]
	if p == nil || p.self != ends[1] {
		return
	}
	from := ends[0]
	switch x.kind {
	case "machine":
		m, to, err := parseMessage(x.data)
		if err != nil {
			w.t.Fatal(err)
		}
		if to == p.self.Epoch {
			p.m.take(from, &m)
		}
	case "subscribed", "unsubscribed":
		p.learn(from, x.id, x.kind == "subscribed")
		w.link(p.self, from, word{kind: "known", ask: x.ask})
	case "known":
		for i := range p.told {
			if p.told[i].ask <= x.ask {
				delete(p.told[i].wants, from)
			}
		}
		p.knownTo()
	case "publish":
		w.takes(p, x)
	}
}

func (w *world) takes(p *process, x word) {
	if s := p.stored[x.id]; s != nil && s.kept {
		if !s.had[x.pub.Number] {
			s.queue = append(s.queue, x.pub)
		}
		w.firm[x.pub.Number] = w.firm[x.pub.Number] || s.moving != 'a'
	} else if owing := w.owing[x.pub.Number]; owing != nil && len(owing) == 1 {
		delete(w.owing, x.pub.Number) // nobody was there in the end
	}
	owing := w.owing[x.pub.Number]
	if owing == nil {
		return
	}
	if delete(owing, p.self); len(owing) == 0 {
		w.accepted[x.pub.Number] = true
		delete(w.owing, x.pub.Number)
	}
}

// drink gives a client the next message.
func (w *world) drink(p *process, id broker.SessionID) {
	s := p.stored[id]
	if !p.clients[id] || s == nil || len(s.queue) == 0 {
		return
	}
	w.ledger[id.Client] = append(w.ledger[id.Client], s.queue[0])
	s.queue = s.queue[1:]
}

// step does something of what can happen.
func (w *world) step(faults bool) bool {
	type choice struct {
		name string
		do   func()
	}
	var all []choice
	add := func(name string, do func()) { all = append(all, choice{name, do}) }
	for _, id := range sortedKeys(w.nodes) {
		p := w.nodes[id]
		if len(p.events) > 0 {
			add("event of "+id, func() {
				event := p.events[0]
				p.events = p.events[1:]
				event()
			})
		}
		if p.followed < len(w.log) {
			add("log at "+id, p.follow)
		}
		if p.outbox != nil {
			add("write of "+id, p.land)
		}
		if len(p.m.writes.records) > 0 && len(p.m.writes.flying) == 0 {
			add("entry of "+id, p.write)
		}
		for _, o := range sortedKeys(w.resting) {
			if dead := w.resting[o].self; p.m.alive(dead) {
				add(id+" declares "+o, func() { p.gone(dead) })
			}
		}
	}
	for ends := range w.links {
		if !w.slow[ends[0].ID+ends[1].ID] || !w.links[ends][0].behind {
			add(fmt.Sprint("link ", ends), func() { w.deliver(ends, 0) })
		}
		if at := slices.IndexFunc(w.links[ends], func(x word) bool { return !x.behind }); at > 0 {
			add(fmt.Sprint("ahead ", ends), func() { w.deliver(ends, at) })
		}
	}
	if faults && len(w.late) > 0 {
		add("late", func() { w.log = append(w.log, w.late[0]); w.late = w.late[1:] })
	}
	if len(all) == 0 {
		for ends := range w.links { // of slow ones, where nothing else can happen
			add(fmt.Sprint("link ", ends), func() { w.deliver(ends, 0) })
		}
	}
	if len(all) == 0 {
		return false
	}
	slices.SortFunc(all, func(a, b choice) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	c := all[rapid.IntRange(0, len(all)-1).Draw(w.t, "what")]
	w.t.Log(c.name)
	c.do()
	return true
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, nodes: map[string]*process{}, resting: map[string]*process{}, links: map[[2]Node][]word{}, epochs: map[string]uint64{},
		accepted: map[int]bool{}, firm: map[int]bool{}, proper: map[int]bool{}, owing: map[int]map[Node]bool{}, to: map[int]broker.SessionID{}, ledger: map[string][]publication{},
	}
	w.slow = map[string]bool{}
	for _, ends := range []string{"ab", "ac", "ba", "bc", "ca", "cb"} {
		w.slow[ends] = rapid.IntRange(0, 3).Draw(t, "slow") == 0
	}
	for _, id := range []string{"a", "b", "c"} {
		w.start(id)
	}
	return w
}

// settle has everything come to rest, with all bridges there.
func (w *world) settle() {
	for _, id := range sortedKeys(w.resting) {
		w.start(id)
	}
	for i := 0; w.step(false); i++ {
		if i > 20_000 {
			w.t.Fatal("the bridges do not come to rest")
		}
	}
	for id, p := range w.nodes {
		if len(p.m.places) > 0 {
			for _, at := range p.m.places {
				w.t.Fatalf("%s is stuck with %s: %T %+v", id, at.id.Client, at.ops[0], at.ops[0])
			}
		}
	}
}

// TestASessionIsOneBridgesWhateverHappens has clients with sessions that are kept
// go from bridge to bridge while bridges are killed, and compares what they were
// sent with what was acknowledged.
func TestASessionIsOneBridgesWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		ids := []string{"a", "b", "c"}
		for _, id := range people {
			w.connect(w.nodes["a"], id, true, false)
		}
		for range rapid.IntRange(20, 250).Draw(t, "steps") {
			person := people[rapid.IntRange(0, len(people)-1).Draw(t, "person")]
			p := w.nodes[rapid.SampledFrom(ids).Draw(t, "bridge")]
			switch what := rapid.IntRange(0, 99).Draw(t, "do"); {
			case what < 6 && p != nil:
				w.connect(p, person, true, false)
			case what < 9 && p != nil && len(w.nodes) > 1:
				w.kill(p.self.ID)
			case what < 14 && len(w.resting) > 0:
				w.start(sortedKeys(w.resting)[0])
			case what < 24 && p != nil:
				w.publish(p, person)
			case what < 30 && p != nil:
				w.drink(p, person)
			default:
				w.step(true)
			}
		}
		w.settle()
		for _, id := range people {
			w.connect(w.nodes["b"], id, true, false)
			w.settle()
			w.check(id)
		}
	})
}

// TestAClientHasOneSession has clients of all kinds connect anywhere, with or without
// a clean start, one connection after the other, and bridges start again in between.
func TestAClientHasOneSession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 12).Draw(t, "connections") {
			person := people[rapid.IntRange(0, len(people)-1).Draw(t, "person")]
			p := w.nodes[rapid.SampledFrom(sortedKeys(w.nodes)).Draw(t, "bridge")]
			switch what := rapid.IntRange(0, 9).Draw(t, "do"); {
			case what < 6:
				w.connect(p, person, rapid.Bool().Draw(t, "kept"), rapid.Bool().Draw(t, "clean"))
			case what < 8 && p.clients[person]:
				p.leave(person)
			default:
				w.kill(p.self.ID)
			}
			w.settle()
			w.alone(person, func(p *process) bool { return p.stored[person] != nil })
		}
		for _, id := range people {
			w.connect(w.nodes["c"], id, false, true)
		}
		w.settle()
		for _, p := range w.nodes {
			if n := p.m.table.Len(); n != 0 {
				t.Fatalf("%s knows owners of %d sessions, and none is kept", p.self, n)
			}
		}
	})
}

// leave has a client disconnect.
func (p *process) leave(id broker.SessionID) {
	delete(p.clients, id)
	if s := p.stored[id]; !s.kept && s.moving == 0 {
		p.forget(id)
		p.post(func() { p.m.left(id) })
	}
}

// alone fails if something holds at two bridges.
func (w *world) alone(id broker.SessionID, holds func(*process) bool) {
	var has *process
	for _, name := range sortedKeys(w.nodes) {
		if p := w.nodes[name]; holds(p) {
			if has != nil {
				w.t.Fatalf("%s and %s have %s", has.self, p.self, id.Client)
			}
			has = p
		}
	}
}

// check compares what a client has been sent, and will be, with what was
// acknowledged.
func (w *world) check(id broker.SessionID) {
	var has *process
	for _, name := range sortedKeys(w.nodes) {
		p := w.nodes[name]
		if p.stored[id] == nil {
			continue
		}
		if has != nil {
			w.t.Fatalf("%s and %s have %s", has.self, p.self, id.Client)
		}
		has = p
	}
	if has == nil || has.self.ID != "b" {
		w.t.Fatalf("%s is not where its client is", id.Client)
	}
	if owner := has.m.table.Owner(w.secret.Key(id)); owner.Bridge != "b" || owner.Epoch != has.stored[id].epoch {
		w.t.Fatalf("the log says that %s is owned by %v, and its bridge has epoch %d", id.Client, owner, has.stored[id].epoch)
	}
	got := append(slices.Clone(w.ledger[id.Client]), has.stored[id].queue...)
	last := map[string]int{}
	seen := map[int]bool{}
	for _, pub := range got {
		if seen[pub.Number] {
			w.t.Fatalf("%s has %d twice: %v", id.Client, pub.Number, got)
		}
		if ordered := w.proper[pub.Number] && w.accepted[pub.Number]; ordered && pub.Number < last[pub.By] {
			w.t.Fatalf("%s has %d out of order: %v", id.Client, pub.Number, got)
		}
		if seen[pub.Number] = true; w.proper[pub.Number] && w.accepted[pub.Number] {
			last[pub.By] = pub.Number
		}
	}
	for number := range w.accepted {
		if w.to[number] == id && w.firm[number] && !seen[number] {
			w.t.Fatalf("%s lacks %d, which was acknowledged: %v", id.Client, number, got)
		}
	}
}

// TestAClientStandsOnceWhenAllHasComeToRest has clients of all kinds connect
// anywhere at the same time, while bridges are killed and start again.
func TestAClientStandsOnceWhenAllHasComeToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		ids := []string{"a", "b", "c"}
		for range rapid.IntRange(10, 120).Draw(t, "steps") {
			person := people[rapid.IntRange(0, len(people)-1).Draw(t, "person")]
			p := w.nodes[rapid.SampledFrom(ids).Draw(t, "bridge")]
			switch what := rapid.IntRange(0, 99).Draw(t, "do"); {
			case what < 10 && p != nil:
				w.connect(p, person, rapid.Bool().Draw(t, "kept"), rapid.Bool().Draw(t, "clean"))
			case what < 12 && p != nil && p.clients[person]:
				p.leave(person)
			case what < 15 && p != nil && len(w.nodes) > 1:
				w.kill(p.self.ID)
			case what < 20 && len(w.resting) > 0:
				w.start(sortedKeys(w.resting)[0])
			default:
				w.step(true)
			}
		}
		w.settle()
		for _, id := range people {
			w.alone(id, func(p *process) bool { return p.clients[id] })
		}
	})
}
