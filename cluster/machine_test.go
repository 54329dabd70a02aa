package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A world is a stream and the processes that use it, in simulated time.
type world struct {
	t         *rapid.T
	chance    *rand.Rand
	now       time.Duration
	revision  uint64
	log       []stored
	last      map[string]stored // by id
	electedAt time.Duration     // until when nobody leads the stream
	flights   []flight
	procs     []*proc
	started   uint64
}

// A stored record is a message of the stream. Those of candidates have no id.
type stored struct {
	id       string
	revision uint64
	record   Record
}

// A flight is a write on its way, or its confirmation.
type flight struct {
	at   time.Duration
	then func()
}

// A proc is a process with a machine.
type proc struct {
	m       *machine
	name    string // of the process
	born    time.Duration
	read    int           // how much of the log it has seen
	wakes   time.Duration // when it looks next
	paused  time.Duration // until when it stands still
	busy    time.Duration // until when it waits for a confirmation
	reach   time.Duration // until when it does not reach the stream
	trouble time.Duration // when it was last paused or cut off for so long that others may judge
	dead    bool          // it has ended
}

const (
	timeout = attemptTimeout
	every   = RenewEvery
)

// local is the clock of a process.
func (w *world) local(p *proc) time.Duration { return w.now - p.born }

func (w *world) start(id string) {
	w.started++
	p := &proc{m: newMachine(id, fmt.Sprint("i", w.started), 1), name: fmt.Sprint(id, w.started), born: w.now, wakes: w.now}
	w.procs = append(w.procs, p)
}

// store applies a write to the stream, and reports its revision, 0 if it was
// refused.
func (w *world) store(id string, r Record, after uint64) uint64 {
	if id != "" && w.last[id].revision != after {
		return 0
	}
	w.revision++
	r.ID = id
	if r.Joined == 0 {
		r.Joined = w.revision
	}
	s := stored{id, w.revision, r}
	w.log = append(w.log, s)
	if id != "" {
		w.last[id] = s
	}
	return w.revision
}

// send has a write arrive, and its confirmation come back, each in its time or
// never. While nobody leads, it is stored late or lost.
func (w *world) send(p *proc, id string, r Record, after uint64, confirmed func(revision uint64)) {
	sent := w.now
	there := w.now + w.delay()
	if there < p.reach || w.chance.IntN(20) == 0 && w.lossy() {
		return
	}
	if there < w.electedAt {
		if w.chance.IntN(2) == 0 {
			return
		}
		there = w.electedAt + w.delay()
	}
	w.flights = append(w.flights, flight{there, func() {
		revision := w.store(id, r, after)
		back := w.now + w.delay()
		if back-sent > timeout || back < p.reach {
			return
		}
		times := 1
		if w.chance.IntN(20) == 0 {
			times = 2
		}
		for range times {
			w.flights = append(w.flights, flight{back, func() { confirmed(revision) }})
		}
	}})
}

// lossy reports whether single messages get lost. They do not in a healthy
// network over which TCP goes.
func (w *world) lossy() bool { return w.now < w.electedAt+timeout }

func (w *world) delay() time.Duration { return time.Duration(1+w.chance.IntN(40)) * time.Millisecond }

// run lets time pass until an end, in steps of 10 ms.
func (w *world) run(end time.Duration) {
	for w.now < end {
		w.now += 10 * time.Millisecond
		w.land()
		for _, p := range w.procs {
			w.turn(p)
		}
		w.check()
	}
}

// land has arrive what is on its way.
func (w *world) land() {
	for i := 0; i < len(w.flights); i++ {
		if f := w.flights[i]; f.at <= w.now {
			w.flights = slices.Delete(w.flights, i, i+1)
			i--
			f.then()
		}
	}
}

// turn lets a process do what it has to.
func (w *world) turn(p *proc) {
	if p.dead || w.now < p.paused {
		return
	}
	if w.now >= p.reach && w.now >= w.electedAt {
		for ; p.read < len(w.log); p.read++ {
			s := w.log[p.read]
			if s.id == "" {
				p.m.passed(s.revision)
				continue
			}
			s.record.Revision = s.revision
			p.m.seen(entry{s.id, s.revision, s.record})
		}
	}
	if p.m.phase == fenced {
		p.dead = true
		return
	}
	if w.now < p.wakes || w.now < p.busy || p.read == 0 && len(w.log) > 0 {
		return
	}
	p.wakes = w.now + every
	w.act(p)
	w.judge(p)
}

// act does the next step of a process.
func (w *world) act(p *proc) {
	s := p.m.next()
	sent := w.local(p)
	p.busy = w.now + timeout
	done := func(revision uint64) {
		switch {
		case p.dead || w.now < p.paused || p.busy == 0: // nobody listens, or it was heard already
			return
		case revision == 0:
			p.m.refused()
		default:
			p.m.confirmed(s, sent, w.local(p), revision)
			w.judge(p)
		}
		p.busy = 0
	}
	r := Record{Schema: 1, Instance: p.m.instance, Member: Member{Node: Node{Epoch: p.m.epoch}, State: Serving, Joined: p.m.joined}}
	switch s.kind {
	case prove:
		w.send(p, "", r, 0, done)
	case join, renew:
		w.send(p, p.m.id, r, s.after, done)
	case look:
		p.busy = 0
		if w.now < p.reach || w.now < w.electedAt {
			return
		}
		last, ok := w.last[p.m.id]
		if !ok {
			p.m.looked(nil)
			return
		}
		last.record.Revision = last.revision
		p.m.looked(&entry{last.id, last.revision, last.record})
	case rest:
		p.busy = 0
	}
}

// judge writes the verdicts of a process, which are on those that had time to
// renew only if something was wrong with them.
func (w *world) judge(p *proc) {
	for _, e := range p.m.silent() {
		for _, q := range w.procs {
			if q.m.instance == e.record.Instance && !q.dead && w.now-max(q.trouble, w.electedAt) > 2*time.Second {
				w.t.Fatalf("%v: %s declares %s dead although nothing was wrong with it since %v", w.now, p.name, q.name, q.trouble)
			}
		}
		dead := e.record
		dead.State, dead.By = Dead, p.m.id
		w.send(p, e.id, dead, e.revision, func(uint64) {})
	}
}

// check looks at what must always hold: of one id, and of those that lead, one
// at most acts that is sure of it.
func (w *world) check() {
	acting, leading := make(map[string]string), ""
	for _, p := range w.procs {
		if p.dead || w.now < p.paused || !p.m.sure(w.local(p)) {
			continue
		}
		if other := acting[p.m.id]; other != "" {
			w.t.Fatalf("%v: %s and %s act with one id", w.now, other, p.name)
		}
		acting[p.m.id] = p.name
		if !p.m.oldest() {
			continue
		}
		if leading != "" {
			w.t.Fatalf("%v: %s and %s are the oldest", w.now, leading, p.name)
		}
		leading = p.name
	}
}

func (w *world) drawProc() *proc { return rapid.SampledFrom(w.procs).Draw(w.t, "process") }

// settle lets everything heal: then every process that stood still for longer
// than it may is fenced, and whoever lives is a member or waits for one of its id.
func (w *world) settle() {
	w.run(max(w.electedAt, w.now) + 60*time.Second)
	members := make(map[string]bool)
	for _, p := range w.procs {
		if !p.dead && p.m.phase == member {
			members[p.m.id] = true
			if s := w.last[p.m.id]; s.record.Instance != p.m.instance || s.record.ended() {
				w.t.Fatalf("%s is a member, the stream says %+v", p.name, s.record)
			}
		}
	}
	ids := make(map[string]bool)
	leads := 0
	for _, p := range w.procs {
		if p.dead {
			continue
		}
		ids[p.m.id] = true
		if p.m.oldest() {
			leads++
		}
	}
	if !maps.Equal(ids, members) {
		w.t.Fatalf("%v: ids with a process %v, with a member %v", w.now, ids, members)
	}
	if len(ids) > 0 && leads != 1 {
		w.t.Fatalf("%d are the oldest", leads)
	}
}

func newWorld(t *rapid.T) *world {
	seed := rapid.Uint64().Draw(t, "seed")
	w := &world{t: t, chance: rand.New(rand.NewPCG(seed, 0)), last: make(map[string]stored)}
	for _, id := range []string{"a", "b", "c"} {
		w.start(id)
	}
	return w
}

// TestOneOfEachNameActsAndNobodyIsDeclaredDeadForNothing has processes pause,
// lose their way to the stream, end and start again, two by one name, while the
// stream's leader changes and confirmations are lost, late or doubled.
func TestOneOfEachNameActsAndNobodyIsDeclaredDeadForNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run(3 * time.Second)
		t.Repeat(map[string]func(*rapid.T){
			"pass": func(t *rapid.T) {
				w.run(w.now + time.Duration(rapid.IntRange(50, 3000).Draw(t, "ms"))*time.Millisecond)
			},
			"elect": func(t *rapid.T) {
				if w.now > w.electedAt {
					w.electedAt = w.now + time.Duration(rapid.IntRange(4000, 9000).Draw(t, "ms"))*time.Millisecond
				}
			},
			"pause": func(t *rapid.T) {
				p, long := w.drawProc(), time.Duration(rapid.IntRange(100, 30000).Draw(t, "ms"))*time.Millisecond
				p.paused = max(p.paused, w.now+long)
				w.troubled(p, p.paused)
			},
			"cut": func(t *rapid.T) {
				p, long := w.drawProc(), time.Duration(rapid.IntRange(100, 20000).Draw(t, "ms"))*time.Millisecond
				p.reach = max(p.reach, w.now+long)
				w.troubled(p, p.reach)
			},
			"kill": func(t *rapid.T) {
				w.drawProc().dead = true
			},
			"start": func(t *rapid.T) {
				if len(w.procs) < 12 {
					w.start(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id"))
				}
			},
			"": func(t *rapid.T) {},
		})
		w.settle()
	})
}

// troubled notes until when something is wrong with a process. A short while is
// nothing to be judged for.
func (w *world) troubled(p *proc, until time.Duration) {
	if until-w.now > 1500*time.Millisecond {
		p.trouble = max(p.trouble, until)
	}
}

func TestANodeCallsItselfTheOldestOnceItHasReadUpToItsRecord(t *testing.T) {
	m := newMachine("b", "i", 7)
	m.passed(3)
	m.confirmed(step{kind: join}, 0, time.Second, 5)
	if m.oldest() {
		t.Error("the oldest, although what is stored before its record was not read")
	}
	m.seen(entry{"a", 4, Record{Member: Member{Node: Node{"a", 3}, Joined: 4}}})
	m.passed(5)
	if m.oldest() {
		t.Error("the oldest beside one that was there before")
	}
	m.gone("a")
	if !m.oldest() {
		t.Error("not the oldest, although nobody else is there")
	}
}

func TestACandidateJoinsWhereTheRecordBeforeIsGone(t *testing.T) {
	m := newMachine("a", "i", 7)
	m.seen(entry{"a", 4, Record{Instance: "other", Member: Member{Node: Node{"a", 90}, Joined: 4, State: Left}}})
	if s := m.next(); s.kind != join || s.after != 4 || s.epoch != 90+adoptions {
		t.Fatalf("it does %+v", s)
	}
	m.refused()
	if s := m.next(); s.kind != look {
		t.Fatalf("it does %+v", s)
	}
	m.looked(nil)
	if s := m.next(); s.kind != join || s.after != 0 {
		t.Errorf("it does %+v", s)
	}
}
