package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A cluster is some brokers with a relay each, in one process.
type cluster struct {
	t        *testing.T
	mu       sync.Mutex
	nodes    map[string]*bridgeNode
	retained *retainedLog
	deaf     map[string]bool // what is sent to these is lost
	detained map[[2]string]*detention
	runs     map[string]uint64
	journal  broker.Journal // of the bridges that are added
	entrance broker.Directory
	marks    int
	markers  map[string]*device
}

type bridgeNode struct {
	*broker.Broker
	relay *Relay
	id    string
	epoch uint64
	addr  string
	stop  func()
}

// straight carries frames in order, each pair by a goroutine of its own.
type straight struct {
	c    *cluster
	from string
	mu   sync.Mutex
	to   map[string]chan []byte
	done sync.WaitGroup
}

func (s *straight) Send(to string, f []byte) error {
	if s.c.detains(s.from, to, f) {
		return nil
	}
	s.mu.Lock()
	line := s.to[to]
	if line == nil {
		line = make(chan []byte, 1024)
		s.to[to] = line
		s.done.Go(func() {
			for f := range line {
				s.c.mu.Lock()
				n, deaf := s.c.nodes[to], s.c.deaf[to]
				s.c.mu.Unlock()
				if n != nil && !deaf {
					n.relay.Take(s.from, f)
				}
			}
		})
	}
	s.mu.Unlock()
	select {
	case line <- slices.Clone(f):
	default: // lost
	}
	return nil
}

func (s *straight) close() {
	s.mu.Lock()
	for _, line := range s.to {
		close(line)
	}
	s.to = nil
	s.mu.Unlock()
	s.done.Wait()
}

// A detention holds frames back on their way from a bridge to another one.
type detention struct {
	c      *cluster
	way    [2]string
	frames [][]byte
}

// detain holds all frames back that a bridge sends to another one from now on.
func (c *cluster) detain(from, to string) *detention {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &detention{c: c, way: [2]string{from, to}}
	c.detained[d.way] = d
	return d
}

func (c *cluster) detains(from, to string, f []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.detained[[2]string{from, to}]
	if d != nil {
		d.frames = append(d.frames, slices.Clone(f))
	}
	return d != nil
}

// await waits until frames with all the texts are held.
func (d *detention) await(texts ...string) {
	d.c.t.Helper()
	eventually.Holds(d.c.t, "messages are on their way", func() bool {
		d.c.mu.Lock()
		defer d.c.mu.Unlock()
		all := string(slices.Concat(d.frames...))
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(all, text) })
	})
}

// release has the held frames arrive, also if their sender has ended meanwhile, and
// returns afterwards.
func (d *detention) release() {
	d.c.mu.Lock()
	delete(d.c.detained, d.way)
	n := d.c.nodes[d.way[1]]
	d.c.mu.Unlock()
	for _, f := range d.frames {
		n.relay.Take(d.way[0], f)
	}
}

func newCluster(t *testing.T, names ...string) *cluster {
	c := &cluster{t: t, nodes: make(map[string]*bridgeNode), deaf: make(map[string]bool), detained: make(map[[2]string]*detention), runs: make(map[string]uint64), retained: &retainedLog{grown: make(chan struct{})}}
	for _, name := range names {
		c.add(name)
	}
	t.Cleanup(func() {
		for _, n := range c.all() {
			c.end(n)
		}
	})
	c.agree()
	return c
}

func (c *cluster) add(name string) {
	line := &straight{c: c, from: name, to: make(map[string]chan []byte)}
	c.runs[name]++
	r := New(Options{Self: Node{name, c.runs[name]}, Key: &testKey, Transport: line, Outbox: 256 << 10})
	b, err := broker.New(broker.Options{
		Peers: r, Retained: followed{c.retained, name}, SysInterval: -1, Conditions: true, Journal: c.journal, Directory: c.entrance,
		Authenticate: func(_ context.Context, shown broker.Credentials) (*protocol.Principal, error) {
			who := &protocol.Principal{ID: "someone", Space: protocol.DefaultSpace}
			if shown.Username != "" {
				who.Space = protocol.SpaceID(shown.Username)
			}
			return who, nil
		},
		Permissions: everything{},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	r.Start(Of(b))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	n := &bridgeNode{Broker: b, relay: r, id: name, epoch: c.runs[name], addr: l.Addr().String()}
	served := make(chan struct{})
	go func() { defer close(served); _ = b.Serve(context.Background(), "mqtt", l) }()
	n.stop = func() {
		r.Close()
		line.close()
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			c.t.Errorf("close: %v", err)
		}
		<-served
	}
	c.mu.Lock()
	c.nodes[name] = n
	c.mu.Unlock()
}

type everything struct{}

func (everything) MayPublish(*broker.Client, string, bool) broker.Verdict { return broker.Verdict{} }
func (everything) MaySubscribe(*broker.Client, string) broker.Verdict     { return broker.Verdict{} }

func (c *cluster) all() (all []*bridgeNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		all = append(all, n)
	}
	return all
}

// end takes a bridge away. The others are told by agree.
func (c *cluster) end(n *bridgeNode) {
	c.mu.Lock()
	delete(c.nodes, n.id)
	c.mu.Unlock()
	n.stop()
}

// meet tells all bridges of each other, and waits until they have heard.
func (c *cluster) meet() {
	c.t.Helper()
	var members []Member
	for _, n := range c.all() {
		members = append(members, Member{Node: Node{n.id, n.epoch}, Ready: true})
	}
	for _, n := range c.all() {
		n.relay.Reconcile(members)
	}
	for _, n := range c.all() {
		eventually.Holds(c.t, n.id+" is ready", n.relay.Ready)
	}
}

// agree has the bridges meet, and publish Wills.
func (c *cluster) agree() {
	c.t.Helper()
	c.meet()
	for _, n := range c.all() {
		n.PublishWills()
	}
}

// A device is a client with what it has received.
type device struct {
	*paho.Client
	got chan *paho.Publish
	t   *testing.T
}

// connect connects a device of a space to a bridge.
func (c *cluster) connect(to, id string, space protocol.SpaceID) *device {
	c.t.Helper()
	c.mu.Lock()
	addr := c.nodes[to].addr
	c.mu.Unlock()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		c.t.Fatal(err)
	}
	d := &device{got: make(chan *paho.Publish, 4096), t: c.t}
	d.Client = paho.NewClient(paho.ClientConfig{Conn: nc, PacketTimeout: eventually.Patience, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
		func(p paho.PublishReceived) (bool, error) {
			d.got <- p.Packet
			return true, nil
		},
	}})
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	answer, err := d.Connect(ctx, &paho.Connect{ClientID: id, CleanStart: true, KeepAlive: 0, UsernameFlag: true, Username: string(space)})
	if err != nil || answer.ReasonCode != 0 {
		c.t.Fatalf("connect: %v %+v", err, answer)
	}
	c.t.Cleanup(func() { _ = d.Disconnect(&paho.Disconnect{}) })
	return d
}

func (d *device) hears(filter string, qos byte) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	if _, err := d.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: qos}}}); err != nil {
		d.t.Fatal(err)
	}
}

// says publishes and returns the reason code of the answer.
func (d *device) says(topic, text string, qos byte) byte {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	answer, err := d.Publish(ctx, &paho.Publish{Topic: topic, Payload: []byte(text), QoS: qos})
	if err != nil {
		d.t.Fatal(err)
	}
	if answer == nil {
		return 0
	}
	return answer.ReasonCode
}

// next is the next message that comes.
func (d *device) next() string {
	d.t.Helper()
	select {
	case p := <-d.got:
		return fmt.Sprintf("%s=%s@%d", p.Topic, p.Payload, p.QoS)
	case <-time.After(eventually.Patience):
		d.t.Fatal("nothing came")
		return ""
	}
}

func (d *device) expect(want ...string) {
	d.t.Helper()
	for _, w := range want {
		if got := d.next(); got != w {
			d.t.Fatalf("got %s, not %s", got, w)
		}
	}
}

func TestWhatIsPublishedAtOneBridgeIsHeardAtAll(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	b, third := c.connect("b", "listener-b", "home"), c.connect("c", "listener-c", "home")
	b.hears("x/1", 2)
	b.hears("y/+", 1)
	third.hears("x/#", 2)
	a := c.connect("a", "speaker", "home")
	for qos := range byte(3) {
		if reason := a.says("x/1", "hello", qos); reason != 0 {
			t.Errorf("QoS %d was answered by %#x", qos, reason)
		}
	}
	a.says("y/1", "there", 2)
	b.expect("x/1=hello@0", "x/1=hello@1", "x/1=hello@2", "y/1=there@1")
	third.expect("x/1=hello@0", "x/1=hello@1", "x/1=hello@2")
	if reason := a.says("nobody/listens", "?", 1); reason != packets.PubackNoMatchingSubscribers {
		t.Errorf("a message for nobody was answered by %#x", reason)
	}
}

func TestSpacesStayApartAcrossBridges(t *testing.T) {
	c := newCluster(t, "a", "b")
	home, work := c.connect("b", "one", "home"), c.connect("b", "two", "work")
	home.hears("t", 1)
	work.hears("#", 1)
	a := c.connect("a", "speaker", "work")
	if reason := a.says("t", "secret", 1); reason != 0 {
		t.Errorf("answered by %#x", reason)
	}
	work.expect("t=secret@1")
	c.connect("a", "other", "home").says("t", "open", 1)
	home.expect("t=open@1") // and nothing before
	if reason := c.connect("a", "third", "elsewhere").says("t", "?", 1); reason != packets.PubackNoMatchingSubscribers {
		t.Errorf("a space without listeners: %#x", reason)
	}
}

func TestEachMessageOfAGroupGoesToOneMemberOfAllBridges(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	members := []*device{c.connect("a", "m1", "home"), c.connect("b", "m2", "home"), c.connect("b", "m3", "home"), c.connect("c", "m4", "home")}
	for _, m := range members {
		m.hears("$share/g/work", 1)
	}
	a := c.connect("a", "speaker", "home")
	const each = 50
	for i := range each * len(members) {
		if reason := a.says("work", fmt.Sprint(i), 1); reason != 0 {
			t.Fatalf("answered by %#x", reason)
		}
	}
	seen := make(map[string]bool)
	for range each * len(members) {
		for i, m := range members {
			select {
			case p := <-m.got:
				if seen[string(p.Payload)] {
					t.Fatalf("member %d got %s again", i, p.Payload)
				}
				seen[string(p.Payload)] = true
			default:
			}
		}
	}
	eventually.Holds(t, "all are taken", func() bool {
		for _, m := range members {
			select {
			case p := <-m.got:
				if seen[string(p.Payload)] {
					t.Fatalf("%s came again", p.Payload)
				}
				seen[string(p.Payload)] = true
			default:
			}
		}
		return len(seen) == each*len(members)
	})
}

func TestTheOrderOfAPublisherIsKeptAcrossBridges(t *testing.T) {
	c := newCluster(t, "a", "b")
	b := c.connect("b", "listener", "home")
	b.hears("#", 2)
	a := c.connect("a", "speaker", "home")
	var want []string
	for i := range 300 {
		qos := byte(i % 3)
		a.says("t", fmt.Sprint(i), qos)
		want = append(want, fmt.Sprintf("t=%d@%d", i, qos))
	}
	b.expect(want...)
}

func TestABridgeThatDiesOwesNothing(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	b, third := c.connect("b", "listener-b", "home"), c.connect("c", "listener-c", "home")
	b.hears("t", 1)
	third.hears("t", 1)
	a := c.connect("a", "speaker", "home")
	c.mu.Lock()
	c.deaf["b"] = true
	dying := c.nodes["b"]
	c.mu.Unlock()
	answered := make(chan byte, 1)
	go func() { answered <- a.says("t", "hello", 1) }()
	third.expect("t=hello@1")
	select {
	case reason := <-answered:
		t.Fatalf("acknowledged by %#x though a bridge that owes it to somebody was not heard of", reason)
	default:
	}
	c.end(dying)
	c.agree()
	if reason := <-answered; reason != 0 {
		t.Errorf("answered by %#x", reason)
	}
	if reason := a.says("t", "again", 1); reason != 0 {
		t.Errorf("answered by %#x", reason)
	}
	third.expect("t=again@1")
}

func TestASlowBridgeSlowsWhoSendsToIt(t *testing.T) {
	c := newCluster(t, "a", "b")
	b := c.connect("b", "listener", "home")
	b.hears("#", 1)
	c.mu.Lock()
	c.deaf["b"] = true
	a := c.nodes["a"]
	c.mu.Unlock()
	speaker := c.connect("a", "speaker", "home")
	payload := make([]byte, 16<<10)
	for range 64 { // of QoS 0, four times what the outbox takes
		speaker.says("t", string(payload), 0)
	}
	answered := make(chan byte, 1)
	go func() { answered <- speaker.says("t", "last", 1) }()
	dropped := func() any { return a.relay.Peers() }
	eventually.Holds(t, "messages of QoS 0 are dropped", func() bool { return a.relay.Peers()[0].Dropped > 0 }, dropped)
	if held := a.relay.Peers()[0].Queued; held > 1<<20 {
		t.Errorf("%d bytes wait for a bridge that does not answer", held)
	}
	c.mu.Lock()
	c.deaf["b"] = false
	c.mu.Unlock()
	if reason := <-answered; reason != 0 {
		t.Errorf("answered by %#x", reason)
	}
	eventually.Holds(t, "the last message came", func() bool { return b.next() == "t=last@1" })
}

func TestLargeMessagesTravelInManyFrames(t *testing.T) {
	c := newCluster(t, "a", "b")
	b := c.connect("b", "listener", "home")
	b.hears("#", 1)
	payload := make([]byte, 900<<10)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	c.connect("a", "speaker", "home").says("t", string(payload), 1)
	p := <-b.got
	if !slices.Equal(p.Payload, payload) {
		t.Errorf("%d bytes came, not the %d that were sent", len(p.Payload), len(payload))
	}
}

func TestWhoSubscribesLateIsHeard(t *testing.T) {
	c := newCluster(t, "a", "b")
	a := c.connect("a", "speaker", "home")
	b := c.connect("b", "listener", "home")
	for i := range 100 {
		topic := fmt.Sprintf("t/%d", i)
		b.hears(topic, 1)
		if reason := a.says(topic, "at once", 1); reason != 0 {
			t.Fatalf("what is published after SUBACK was answered by %#x", reason)
		}
		b.expect(topic + "=at once@1")
	}
}

// A retainedLog is the log of retained messages in memory.
type retainedLog struct {
	mu     sync.Mutex
	values []broker.RetainedValue
	grown  chan struct{} // closed with the next value
	broken bool
	held   map[string]chan struct{} // bridges that hear nothing of it, until these are closed
}

// A followed is the log as a bridge follows it.
type followed struct {
	*retainedLog
	by string
}

func (l *retainedLog) Put(_ context.Context, values []broker.RetainedValue) (positions []uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return nil, errors.New("the log is away")
	}
	for _, v := range values {
		l.values = append(l.values, v)
		positions = append(positions, uint64(len(l.values)))
	}
	close(l.grown)
	l.grown = make(chan struct{})
	return positions, nil
}

// largest is the number of bytes that a value in the log has at most.
const largest = 64 << 10

func (l *retainedLog) Largest() int { return largest }

// hold keeps what comes into the log from a bridge, until it is let go.
func (l *retainedLog) hold(bridge string) (letGo func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(chan struct{})
	if l.held == nil {
		l.held = make(map[string]chan struct{})
	}
	l.held[bridge] = held
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, bridge)
		close(held)
	}
}

func (l followed) Follow(ctx context.Context, current func(), take func(uint64, broker.RetainedValue)) {
	for next := 0; ; {
		l.mu.Lock()
		values, grown, held := l.values[next:], l.grown, l.held[l.by]
		l.mu.Unlock()
		if held != nil {
			select {
			case <-held:
				continue
			case <-ctx.Done():
				return
			}
		}
		for _, v := range values {
			next++
			take(uint64(next), v)
		}
		if current != nil {
			current()
			current = nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return
		}
	}
}

// retains publishes a retained message.
func (d *device) retains(topic, text string) byte {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	answer, err := d.Publish(ctx, &paho.Publish{Topic: topic, Payload: []byte(text), QoS: 1, Retain: true})
	if err != nil {
		d.t.Fatal(err)
	}
	return answer.ReasonCode
}

// TestARetainedMessageThatNATSDoesNotTakeHoldsUpNoOther has a client retain more than
// the log takes: it is told so, and what others retain is stored.
func TestARetainedMessageThatNATSDoesNotTakeHoldsUpNoOther(t *testing.T) {
	c := newCluster(t, "a", "b")
	a := c.connect("a", "speaker", "home")
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	large := &paho.Publish{Topic: "large", Payload: make([]byte, largest), QoS: 1, Retain: true}
	answer, err := a.Publish(ctx, large)
	if answer == nil || answer.ReasonCode != packets.PubackQuotaExceeded || answer.Properties == nil || !strings.Contains(answer.Properties.ReasonString, "larger than NATS takes") {
		t.Fatalf("answered by %+v, %v", answer, err)
	}
	a.retains("small", "on")
	b := c.connect("b", "listener", "home")
	eventually.Holds(t, "b has the small one", func() bool {
		for range c.nodes["b"].Retained("small") {
			return true
		}
		return false
	})
	b.hears("#", 1)
	b.expect("small=on@1")
}

func TestRetainedMessagesAreThereAtEveryBridge(t *testing.T) {
	c := newCluster(t, "a", "b")
	a := c.connect("a", "speaker", "home")
	if reason := a.retains("state/1", "on"); reason != packets.PubackNoMatchingSubscribers {
		t.Errorf("answered by %#x", reason)
	}
	has := func(node, filter string) func() bool {
		return func() bool {
			for range c.nodes[node].Retained(filter) {
				return true
			}
			return false
		}
	}
	eventually.Holds(t, "b has it", has("b", "state/1"))
	b := c.connect("b", "listener", "home")
	b.hears("state/#", 1)
	b.expect("state/1=on@1")
	a.retains("state/1", "")
	b.expect("state/1=@1")
	eventually.Holds(t, "it is gone", func() bool { return !has("b", "state/1")() })
	c.connect("b", "other", "work").hears("#", 1)
	c.add("c") // a bridge that comes later
	c.connect("a", "again", "home").retains("state/2", "x")
	c.agree()
	<-c.nodes["c"].RetainedCurrent()
	eventually.Holds(t, "c has it", has("c", "state/2"))
}

func TestTheLastWriterOfARetainedMessageIsTheSameEverywhere(t *testing.T) {
	names := []string{"a", "b", "c"}
	c := newCluster(t, names...)
	var writers sync.WaitGroup
	for i, name := range names {
		d := c.connect(name, "w"+name, "home")
		writers.Go(func() {
			for n := range 100 {
				d.retains("contested", fmt.Sprintf("%d-%d", i, n))
			}
		})
	}
	writers.Wait()
	c.retained.mu.Lock()
	last := c.retained.values[len(c.retained.values)-1].Value
	c.retained.mu.Unlock()
	for _, name := range names {
		saw := ""
		for n := 0; ; n++ {
			d := c.connect(name, fmt.Sprintf("r%d%s", n, name), "home")
			d.hears("contested", 1)
			if saw = string((<-d.got).Payload); strings.HasSuffix(string(last), saw) {
				break
			}
			if n > 1000 {
				t.Fatalf("%s has %s, the log %q", name, saw, last)
			}
		}
	}
}

func TestNoRetainedMessageIsAcknowledgedBeforeItIsStored(t *testing.T) {
	c := newCluster(t, "a", "b")
	a := c.connect("a", "speaker", "home")
	c.retained.mu.Lock()
	c.retained.broken = true
	c.retained.mu.Unlock()
	answered := make(chan byte, 1)
	go func() { answered <- a.retains("state", "on") }()
	eventually.Holds(t, "it counts where it was published", func() bool {
		for range c.nodes["a"].Retained("state") {
			return true
		}
		return false
	})
	select {
	case reason := <-answered:
		t.Fatalf("acknowledged by %#x and not stored", reason)
	default:
	}
	c.retained.mu.Lock()
	c.retained.broken = false
	c.retained.mu.Unlock()
	<-answered
	c.retained.mu.Lock()
	defer c.retained.mu.Unlock()
	if len(c.retained.values) != 1 {
		t.Errorf("acknowledged with %d values stored", len(c.retained.values))
	}
}
