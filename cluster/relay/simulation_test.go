package relay

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster/direct"
	"github.com/aibridge/aibridge/cluster/routes"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var testKey = routes.Key{7}

// A world is some bridges in one process, and a network between them that
// loses, doubles, delays and reorders frames.
type world struct {
	t     *testing.T
	mu    sync.Mutex
	rand  *rand.Rand
	loss  int // of a hundred frames
	cut   map[[2]string]bool
	nodes map[string]*host
	epoch uint64
	heirs bool   // the sessions of who is dead are served by somebody sooner or later
	lines *lines // between the bridges, beside the network; nil for none
}

// A host is a bridge over the runs of its process. What it has stored stays.
type host struct {
	w    *world
	id   string
	wire int // version of what it says to others
	mark map[string]broker.Mark
	kept []uint64 // messages, in the order of storing

	run     *process // nil while none runs
	last    uint64   // epoch of the last run
	adopted bool     // the run is another bridge's, which serves the sessions
}

// A process is one run of a bridge.
type process struct {
	h       *host
	relay   *Relay
	direct  *direct.Switch // nil without lines
	notes   *notebook
	epoch   uint64
	storing sync.Mutex // one group at a time
	mu      sync.Mutex
	killed  bool
	memory  []uint64 // messages taken and not stored
	arrived func(number uint64)
	marks   []func() // to be called when they are
}

func newWorld(t *testing.T, seed uint64, names ...string) *world {
	return worldOf(nil, t, seed, names...)
}

// worldOf is a world whose bridges have lines, unless lined is nil.
func worldOf(lined func() *lines, t *testing.T, seed uint64, names ...string) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 1)), cut: make(map[[2]string]bool), nodes: make(map[string]*host)}
	if lined != nil {
		w.lines = lined()
		w.lines.w = w
	}
	for i, name := range names {
		h := &host{w: w, id: name, wire: TwoLanes, mark: make(map[string]broker.Mark)}
		if i == len(names)-1 && seed%2 == 1 { // beside one of an earlier release
			h.wire = TwoLanes - 1
		}
		w.nodes[name] = h
		w.start(name)
	}
	w.agree()
	return w
}

func (w *world) start(name string) { w.begin(name, false) }

// begin starts a bridge, or has its sessions served by another one.
func (w *world) begin(name string, adopted bool) {
	h := w.nodes[name]
	w.mu.Lock()
	w.epoch++
	h.last, h.adopted = w.epoch, adopted
	p := &process{h: h, epoch: w.epoch}
	w.mu.Unlock()
	p.relay = New(Options{Self: Node{name, p.epoch}, Key: &testKey, Transport: w.transport(p), Wire: h.wire, Window: 32 << 10, Outbox: 256 << 10})
	p.notes = newNotebook(p.relay)
	p.relay.Start(p)
	w.listen(p)
	w.mu.Lock()
	h.run = p
	w.mu.Unlock()
}

// kill ends a process: what it has not stored is gone.
func (w *world) kill(name string) {
	w.mu.Lock()
	p := w.nodes[name].run
	w.nodes[name].run = nil
	w.mu.Unlock()
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	w.hangUp(p)
	p.relay.Close()
}

// agree tells all processes who is alive.
func (w *world) agree() {
	var members, publishers []Member
	w.mu.Lock()
	for name, h := range w.nodes {
		m := Member{Node: Node{name, h.last}, Wire: h.wire, Ready: h.run != nil, Waits: h.run == nil, Adopted: h.run != nil && h.adopted}
		if h.run != nil || w.heirs {
			members = append(members, m)
		}
		if h.run != nil && !h.adopted {
			publishers = append(publishers, m)
		}
	}
	w.mu.Unlock()
	for _, p := range w.running() {
		w.connect(p)
		if p.h.adopted {
			p.relay.Reconcile(publishers)
		} else {
			p.relay.Reconcile(members)
		}
	}
}

func (w *world) running() (all []*process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.nodes {
		if h.run != nil {
			all = append(all, h.run)
		}
	}
	return all
}

func (w *world) process(name string) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[name].run
}

func (w *world) close() {
	for _, p := range w.running() {
		w.kill(p.h.id)
	}
	synctest.Wait()
	time.Sleep(time.Minute) // of the bubble's time: frames that are on their way
}

// A wire is the network as one bridge has it.
type wire struct {
	w    *world
	from string
}

func (n wire) Send(to string, frame []byte) error {
	w := n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.nodes[to]; h != nil && h.wire < TwoLanes && frame[1] > kindResend {
		w.t.Errorf("%s sends %s, which is of an earlier release, a frame of kind %d", n.from, to, frame[1])
	}
	times := 1
	switch roll := w.rand.IntN(100); {
	case w.cut[[2]string{n.from, to}], roll < w.loss:
		times = 0
	case roll < 2*w.loss:
		times = 2
	}
	for range times {
		delay := time.Millisecond
		if w.loss > 0 {
			delay = time.Duration(w.rand.IntN(20)) * time.Millisecond
		}
		carried := slices.Clone(frame)
		time.AfterFunc(delay, func() {
			if p := w.process(to); p != nil {
				p.relay.Take(n.from, carried)
			}
		})
	}
	return nil
}

// The local side: messages are numbers; even ones have to be stored.

func (p *process) Marked(node string, epoch uint64) uint64 {
	p.h.w.mu.Lock()
	defer p.h.w.mu.Unlock()
	if m := p.h.mark[node]; m.Epoch == epoch {
		return m.Offset
	}
	return 0
}

func (p *process) AnswerReceipts() {}

func (p *process) Reoffer([]byte, []uint64, broker.Outcome, broker.Answerer) {}

func (p *process) Arrive(node string, epoch uint64) Arrival {
	return &arrival{p: p, mark: broker.Mark{Node: node, Epoch: epoch}}
}

type arrival struct {
	p    *process
	mark broker.Mark
	got  []uint64
}

func (a *arrival) Deliver(encoded []byte, _ []uint64, _ bool) (broker.Outcome, []uint64, error) {
	n := binary.LittleEndian.Uint64(encoded)
	if a.p.arrived != nil {
		a.p.arrived(n)
	}
	if n%7 == 0 {
		return broker.Missed, nil, nil
	}
	a.got = append(a.got, n)
	return broker.Taken, nil, nil
}

func (a *arrival) End(offset uint64, then func()) bool {
	if len(a.got) == 0 {
		return true
	}
	w := a.p.h.w
	a.mark.Offset = offset
	w.mu.Lock()
	delay := time.Duration(w.rand.IntN(30)) * time.Millisecond
	w.mu.Unlock()
	a.p.mu.Lock()
	last := len(a.p.marks) == 0
	a.p.marks = append(a.p.marks, func() {
		w.mu.Lock()
		a.p.h.kept = append(a.p.h.kept, a.got...)
		a.p.h.mark[a.mark.Node] = a.mark
		w.mu.Unlock()
		then()
	})
	a.p.mu.Unlock()
	if last {
		time.AfterFunc(delay, a.p.store)
	}
	return false
}

// store stores all that was taken, in order.
func (p *process) store() {
	p.storing.Lock()
	defer p.storing.Unlock()
	p.mu.Lock()
	marks := p.marks
	p.marks = nil
	killed := p.killed
	p.mu.Unlock()
	for _, store := range marks {
		if !killed {
			store()
		}
	}
}

// An answer is what a publisher is told.
type answer struct {
	mu   sync.Mutex
	is   *broker.Outcome
	then func()
}

func (a *answer) Answer(o broker.Outcome) {
	a.mu.Lock()
	a.is = &o
	a.mu.Unlock()
	if a.then != nil {
		a.then()
	}
}

func (a *answer) outcome() *broker.Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.is
}

// A promise is a message that somebody may have been told was accepted.
type promise struct {
	from, to string
	number   uint64
	epoch    uint64 // of the receiver when it was sent
	answer   answer
}

var padding = make([]byte, 200)

func (w *world) send(from, to string, number uint64) *promise {
	m := &promise{from: from, to: to, number: number}
	p := w.process(from)
	target := w.process(to)
	if p == nil || p.h.adopted || target == nil && !w.heirs {
		return nil
	}
	m.epoch = w.nodes[to].last
	peer := p.relay.peer(to)
	if peer == nil {
		return nil
	}
	encoded := append(binary.LittleEndian.AppendUint64(nil, number), padding...)
	peer.Send(broker.Outgoing{Encoded: encoded, QoS: 2, Receipt: &m.answer, Telling: true})
	p.relay.Flush()
	return m
}

// verify holds what was stored to what was promised.
func (w *world) verify(promises []*promise) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range promises {
		times := 0
		for _, n := range w.nodes[m.to].kept {
			if n == m.number {
				times++
			}
		}
		is := m.answer.outcome()
		switch {
		case times > 1:
			w.t.Errorf("message %d from %s is %d times at %s", m.number, m.from, times, m.to)
		case m.number%7 == 0: // nobody is there for it; what a killed bridge told of that may be lost
		case is != nil && *is == broker.Taken && times == 0:
			w.t.Errorf("message %d from %s was accepted by %s, which does not have it", m.number, m.from, m.to)
		case is != nil && *is != broker.Taken && times == 0 && w.heirs:
			w.t.Errorf("message %d from %s was answered by %d, and the sessions of %s were never gone", m.number, m.from, *is, m.to)
		case is != nil && *is == broker.Missed && times == 0 && w.nodes[m.to].run != nil && w.nodes[m.to].run.epoch == m.epoch:
			w.t.Errorf("message %d from %s missed %s, which was there", m.number, m.from, m.to)
		}
	}
	for _, h := range w.nodes {
		last := make(map[uint64]uint64) // by sender
		for _, n := range h.kept {
			if sender := n >> 32; last[sender] > n {
				w.t.Errorf("%s has message %d behind %d", h.id, n, last[sender])
			} else {
				last[sender] = n
			}
		}
	}
}

// TestEveryMessageThatIsAcceptedIsThereOnce sends between three bridges while
// frames are lost, pairs are cut and processes are killed.
func TestEveryMessageThatIsAcceptedIsThereOnce(t *testing.T) {
	acceptedAndThereOnce(t, nil)
}

func acceptedAndThereOnce(t *testing.T, lined func() *lines) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				names := []string{"a", "b", "c"}
				w := worldOf(lined, t, seed, names...)
				w.loss, w.heirs = int(seed%4*8), seed%8 >= 4
				roll := rand.New(rand.NewPCG(seed, 2))
				var promises []*promise
				for i := range uint64(3000) {
					from := roll.IntN(3)
					to := (from + 1 + roll.IntN(2)) % 3
					if m := w.send(names[from], names[to], uint64(from)<<32|i+1); m != nil {
						promises = append(promises, m)
					}
					if roll.IntN(20) == 0 {
						time.Sleep(time.Duration(roll.IntN(20)) * time.Millisecond)
					}
					w.harm(roll, names)
				}
				w.heal()
				for i, name := range names {
					if w.process(name) == nil {
						w.begin(name, w.heirs && i != 0)
					}
				}
				w.agree()
				time.Sleep(30 * time.Second) // of the bubble's time
				for _, m := range promises {
					if m.answer.outcome() == nil {
						p := w.process(m.from)
						if p != nil && p.epoch <= 3 { // it never died
							t.Errorf("message %d from %s to %s was never answered for", m.number, m.from, m.to)
						}
					}
				}
				w.verify(promises)
				w.close()
			})
		})
	}
}

// harm does now and then what is bad for a cluster.
func (w *world) harm(roll *rand.Rand, names []string) {
	one, other := names[roll.IntN(len(names))], names[roll.IntN(len(names))]
	switch roll.IntN(400) {
	case 0: // killed, and back at once
		if w.process(one) != nil {
			w.kill(one)
			w.start(one)
			w.agree()
		}
	case 1: // killed, and declared dead
		if w.process(one) != nil {
			w.kill(one)
			w.agree()
		}
	case 2:
		if w.process(one) == nil {
			w.start(one)
			w.agree()
		}
	case 6: // another bridge serves the sessions, and gives them back in time
		if w.heirs && w.process(one) == nil {
			w.begin(one, true)
			w.agree()
		}
	case 7:
		if p := w.process(one); p != nil && p.h.adopted {
			w.kill(one)
			w.start(one)
			w.agree()
		}
	case 3:
		w.mu.Lock()
		w.cut[[2]string{one, other}] = true
		w.mu.Unlock()
	case 4, 5:
		w.heal()
	case 8, 9, 10:
		w.snap(one, other)
	}
}

func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.cut)
}
