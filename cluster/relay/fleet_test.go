package relay

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/bubble"
)

// How large the fleet of TestAFleet is; make simulation runs it with a hundred
// bridges and a million devices.
var (
	fleetNodes   = flag.Int("fleet-nodes", 6, "bridges of the simulated fleet")
	fleetDevices = flag.Int("fleet-devices", 600, "devices of the simulated fleet")
)

// A fleet is many bridges with devices that subscribe to a topic each, in one
// process. Frames take a millisecond, and computing takes no time.
type fleet struct {
	t       *testing.T
	nodes   []*fleetNode // nil where one has died
	at      []int        // bridge of each device
	roll    *rand.Rand
	frames  atomic.Int64
	bytes   atomic.Int64
	waiting sync.WaitGroup // subscriptions that are not acknowledged
	serving sync.WaitGroup
}

// A fleetNode is a bridge of the fleet.
type fleetNode struct {
	f     *fleet
	index int
	relay *Relay

	mu    sync.Mutex
	inbox []posted
	more  chan struct{}
	gone  chan struct{}
}

type posted struct {
	from  string
	frame []byte
	due   time.Time
}

func nodeID(i int) string { return fmt.Sprint("node-", i) }

func newFleet(t *testing.T, nodes, devices int) *fleet {
	f := &fleet{t: t, at: make([]int, devices), roll: rand.New(rand.NewPCG(1, 2))}
	for i := range nodes {
		n := &fleetNode{f: f, index: i, more: make(chan struct{}, 1), gone: make(chan struct{})}
		n.relay = New(Options{Self: Node{nodeID(i), 1}, Key: &testKey, Transport: n})
		f.nodes = append(f.nodes, n)
	}
	for _, n := range f.nodes {
		n.relay.Start(n)
		f.serving.Go(n.serve)
	}
	f.agree()
	return f
}

// agree tells all bridges who lives.
func (f *fleet) agree() {
	var members []Member
	for _, n := range f.living() {
		members = append(members, Member{Node: Node{nodeID(n.index), 1}, Ready: true})
	}
	for _, n := range f.living() {
		n.relay.Reconcile(members)
	}
}

func (f *fleet) living() (all []*fleetNode) {
	for _, n := range f.nodes {
		if n != nil {
			all = append(all, n)
		}
	}
	return all
}

// kill ends a bridge.
func (f *fleet) kill(i int) {
	n := f.nodes[i]
	f.nodes[i] = nil
	close(n.gone)
	n.relay.Close()
}

func (f *fleet) close() {
	for i, n := range f.nodes {
		if n != nil {
			f.kill(i)
		}
	}
	f.serving.Wait()
}

// Send implements [Transport].
func (n *fleetNode) Send(to string, frame []byte) error {
	n.f.frames.Add(1)
	n.f.bytes.Add(int64(len(frame)))
	var index int
	_, _ = fmt.Sscanf(to, "node-%d", &index)
	if other := n.f.nodes[index]; other != nil {
		other.post(posted{nodeID(n.index), append([]byte(nil), frame...), time.Now().Add(time.Millisecond)})
	}
	return nil
}

func (n *fleetNode) post(p posted) {
	n.mu.Lock()
	n.inbox = append(n.inbox, p)
	n.mu.Unlock()
	select {
	case n.more <- struct{}{}:
	default:
	}
}

// serve takes frames in their order, until the bridge dies.
func (n *fleetNode) serve() {
	for {
		select {
		case <-n.more:
		case <-n.gone:
			return
		}
		n.mu.Lock()
		frames := n.inbox
		n.inbox = nil
		n.mu.Unlock()
		for _, p := range frames {
			time.Sleep(time.Until(p.due))
			n.relay.Take(p.from, p.frame)
		}
	}
}

// The local side has no clients that messages are for.

func (n *fleetNode) Arrive(string, uint64) Arrival { return emptyArrival{} }
func (n *fleetNode) Marked(string, uint64) uint64  { return 0 }
func (n *fleetNode) AnswerReceipts()               {}
func (n *fleetNode) Reoffer([]byte, []uint64, broker.Outcome, broker.Answerer) {
}

type emptyArrival struct{}

func (emptyArrival) End(uint64, func()) bool { return true }
func (emptyArrival) Deliver([]byte, []uint64, bool) (broker.Outcome, []uint64, error) {
	return broker.Missed, nil, nil
}

// Answer implements [broker.Answerer]: a subscription is acknowledged.
func (f *fleet) Answer(broker.Outcome) { f.waiting.Done() }

func interest(device int) broker.Interest {
	return broker.Interest{Space: "home", Filter: fmt.Sprintf("device/%d/cmd", device)}
}

// connects has a device come to a bridge, and to whichever has it no more.
func (f *fleet) connects(device, to int) {
	f.at[device] = to
	f.nodes[to].relay.Subscribed(interest(device))
}

// leaves has a device leave its bridge.
func (f *fleet) leaves(device int) {
	if n := f.nodes[f.at[device]]; n != nil {
		n.relay.Unsubscribed(interest(device))
	}
}

// move has devices go to bridges that live, at once.
func (f *fleet) move(devices []int) {
	living := f.living()
	for _, d := range devices {
		f.leaves(d)
		f.connects(d, living[f.roll.IntN(len(living))].index)
	}
}

// phase does something, and tells what it cost until every bridge knows of every
// subscription.
func (f *fleet) phase(name string, do func()) {
	synctest.Wait()
	f.frames.Store(0)
	f.bytes.Store(0)
	began, cpu := time.Now(), processorTime()
	do()
	for _, n := range f.living() {
		f.waiting.Add(1)
		n.relay.Announced(f)
	}
	f.waiting.Wait()
	took := time.Since(began)
	living := int64(len(f.living()))
	f.t.Logf("%-44s %6d ms  %9d frames  %8.2f MiB in all  %8.1f KiB and %6.0f ms of processor a bridge",
		name, took.Milliseconds(), f.frames.Load(), float64(f.bytes.Load())/(1<<20), float64(f.bytes.Load()/living)/1024,
		float64((processorTime()-cpu).Milliseconds())/float64(living))
	f.verify()
}

// verify asks bridges where devices are.
func (f *fleet) verify() {
	living := f.living()
	for range 1000 {
		d := f.roll.IntN(len(f.at))
		n := living[f.roll.IntN(len(living))]
		away := n.relay.Away(interest(d).Filter, false, "home")
		switch {
		case f.at[d] == n.index:
			if away != nil {
				f.t.Fatalf("%s sends what is for device %d elsewhere: %v", nodeID(n.index), d, away)
			}
		case away == nil || len(away.Peers) != 1 || away.Peers[0].(*peer).id != nodeID(f.at[d]):
			f.t.Fatalf("%s does not know that device %d is at %s: %+v", nodeID(n.index), d, nodeID(f.at[d]), away)
		}
	}
}

func all(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestAFleet has bridges meet, all devices subscribe at once, one of them go to
// another bridge, all come back to their bridges, a tenth of the bridges die whose
// devices go to the others, and all go to any bridge.
func TestAFleet(t *testing.T) {
	before := heapInUse()
	bubble.Test(t, func(t *testing.T) {
		nodes, devices := *fleetNodes, *fleetDevices
		f := newFleet(t, nodes, devices)
		defer f.close()
		f.at = f.at[:1]
		f.phase("one device, while the bridges meet", func() { f.connects(0, 0) })
		f.at = f.at[:devices]
		f.phase("all devices subscribe at once", func() {
			for d := 1; d < devices; d++ {
				f.connects(d, d%nodes)
			}
		})
		time.Sleep(time.Second)
		t.Logf("%d bridges, %d devices: %.1f MiB a bridge", nodes, devices, float64(heapInUse()-before)/(1<<20)/float64(nodes))
		f.phase("one device goes to another bridge", func() { f.move(all(1)) })
		f.phase("all devices come back to their bridges", func() {
			for d := range devices {
				f.leaves(d)
				f.connects(d, f.at[d])
			}
		})
		if sent := f.bytes.Load(); sent > int64(200*nodes*nodes) {
			t.Errorf("devices that come back to their bridges cost %d bytes", sent)
		}
		dead := max(nodes/10, 1)
		f.phase(fmt.Sprint(dead, " bridges die, and their devices go to others"), func() {
			var orphans []int
			for d, at := range f.at {
				if at < dead {
					orphans = append(orphans, d)
				}
			}
			for i := range dead {
				f.kill(i)
			}
			f.agree()
			f.move(orphans)
			t.Logf("%d devices were there", len(orphans))
		})
		f.phase("all devices go to any bridge", func() { f.move(all(devices)) })
	})
}
