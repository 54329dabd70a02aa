package drill

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// A crew is the clients of a drill.
type crew struct {
	cluster   *cluster
	record    *recorder
	load      *load
	nodes     []endpoint
	listeners []Listener

	publishers []*publisher
	sessions   []*session // all that come back by themselves
	away       *session   // a listener that is away while things break
	mourned    []*mourned
	callers    []*caller
	balancers  []*balancer

	agents  atomic.Int64 // that serve
	wanted  int64        // agents
	run     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
}

// A mourned client is lost in each round, and has a will.
type mourned struct {
	*session
	number int // of its wills
}

// newCrew connects all clients.
func newCrew(c *cluster, record *recorder) (*crew, error) {
	w := &crew{cluster: c, record: record, load: new(load), nodes: c.endpoints()}
	w.run, w.stop = context.WithCancel(context.Background())
	for home := range w.nodes {
		w.addListeners(home)
		w.addPublishers(home)
	}
	w.addOthers()
	for _, s := range w.sessions {
		s.start()
	}
	for _, p := range w.publishers {
		w.running.Go(func() { p.run(w.run, w.load, c.options.Every) })
	}
	for home := range w.nodes {
		if err := w.addAgent(home); err != nil {
			return w, err
		}
		caller := newCaller(fmt.Sprintf("caller-%d", home), home, w.nodes, c.http, record, w.load)
		w.callers = append(w.callers, caller)
		w.running.Go(func() { caller.run(w.run) })
		w.addProber(home)
	}
	return w, w.addTalkers()
}

// close disconnects all clients.
func (w *crew) close() {
	w.stop()
	for _, b := range w.balancers {
		_ = b.listener.Close()
	}
	for _, s := range w.sessions {
		s.leave(false)
	}
	for _, m := range w.mourned {
		m.leave(true)
	}
	w.running.Wait()
}

func (w *crew) newSession(name string, kept bool, home int, filters ...string) *session {
	nodes := w.nodes
	if w.cluster.options.Loyal && kept {
		nodes, home = nodes[home:home+1], 0
	}
	return &session{name: "drill-" + name, kept: kept, filters: filters, nodes: nodes, home: home, record: w.record}
}

func (w *crew) addListeners(home int) {
	const share = "$share/team/"
	for _, kind := range []struct {
		name, group, filter string
		kept                bool
	}{
		{"kept", "", topicFlow + "/#", true},
		{"clean", "", topicFlow + "/#", false},
		{"member", "team", share + topicFlow + "/#", true},
	} {
		s := w.newSession(fmt.Sprintf("%s-%d", kind.name, home), kind.kept, home, kind.filter)
		s.hear = hearFlow
		w.sessions = append(w.sessions, s)
		w.listeners = append(w.listeners, Listener{Name: s.name, Kept: kind.kept, Group: kind.group})
	}
}

func (w *crew) addPublishers(home int) {
	for _, kind := range []struct {
		name           string
		qos            byte
		kept, stubborn bool
		retain         bool
	}{
		{"q0", 0, false, false, false},
		{"q1", 1, home%2 == 0, false, false},
		{"q2", 2, true, false, false},
		{"stubborn-q1", 1, true, true, false},
		{"stubborn-q2", 2, true, true, false},
		{"retained", 1, true, false, true},
	} {
		stream := fmt.Sprintf("%s-%d", kind.name, home)
		s := w.newSession("publisher-"+stream, kind.kept, home)
		s.stubborn = kind.stubborn
		w.sessions = append(w.sessions, s)
		w.publishers = append(w.publishers, &publisher{session: s, stream: stream, qos: kind.qos, retain: kind.retain})
	}
}

// addOthers adds the absent listener, the subscriber of Wills, and the clients with
// Wills.
func (w *crew) addOthers() {
	w.away = w.newSession("away", true, 0, topicFlow+"/#")
	w.away.hear = hearFlow
	w.listeners = append(w.listeners, Listener{Name: w.away.name, Kept: true})

	watcher := w.newSession("watcher", true, 1, topicWills+"/#")
	watcher.hear = func(s *session, _ *wire, p *packets.Publish) {
		s.record.add(Event{Kind: WillGot, Client: s.name, ID: string(p.Payload)})
	}
	returning := w.newSession("returning", true, 2)
	returns := 0
	returning.will = func() *will {
		returns++
		return &will{id: fmt.Sprintf("returning-%d", returns), delay: expiry}
	}
	w.sessions = append(w.sessions, w.away, watcher, returning)
	for home := range w.nodes {
		w.addMourned(home, "at-once", 0)
		w.addMourned(home, "delayed", 1)
	}
}

func (w *crew) addMourned(home int, kind string, delay uint32) {
	name := fmt.Sprintf("mourned-%s-%d", kind, home)
	m := &mourned{session: w.newSession(name, delay > 0, home)}
	m.once = true
	m.will = func() *will {
		m.number++
		return &will{id: fmt.Sprintf("%s-%d", name, m.number), delay: delay}
	}
	m.lost = func(last *will) {
		w.record.add(Event{Kind: WillDue, Client: m.name, ID: last.id})
	}
	w.mourned = append(w.mourned, m)
}

// hearFlow records a message of a stream. Retained messages were recorded before.
func hearFlow(s *session, w *wire, p *packets.Publish) {
	if p.Retain {
		return
	}
	stream, number, ok := parseMessage(p.Payload)
	if !ok {
		stream = "garbled: " + string(p.Payload)
	}
	s.record.add(Event{Kind: Got, Client: s.name, Node: w.node, Connection: w.number, Stream: stream, Number: number, QoS: p.QoS})
}

// addTalkers has models work, once the bridges have the workflow.
func (w *crew) addTalkers() error {
	for home := range w.nodes {
		t := &talker{caller: newCaller(fmt.Sprintf("talker-%d", home), home, w.nodes, w.cluster.http, w.record, w.load)}
		if home == 0 {
			if err := w.cluster.until(w.run, "the workflow is imported", t.bring); err != nil {
				return err
			}
		}
		w.running.Go(func() { t.run(w.run) })
	}
	return nil
}

func (w *crew) addAgent(home int) error {
	b, err := newBalancer(w.cluster.host, home, w.nodes)
	if err != nil {
		return err
	}
	w.balancers = append(w.balancers, b)
	a := &agent{name: fmt.Sprintf("agent-%d", home), skill: fmt.Sprintf("drill-%d", home), address: b.listener.Addr().String(), record: w.record}
	w.wanted++
	var once sync.Once
	w.running.Go(func() { a.serve(w.run, func() { once.Do(func() { w.agents.Add(1) }) }) })
	return nil
}

// present returns an error unless all sessions are connected.
func (w *crew) present(context.Context) error {
	for _, s := range w.sessions {
		if !s.connected() {
			return fmt.Errorf("%s is not connected", s.name)
		}
	}
	if n := w.agents.Load(); n < w.wanted {
		return fmt.Errorf("%d of %d agents serve", n, w.wanted)
	}
	return nil
}

// prepare begins a round: the absent listener leaves, and the clients with Wills
// connect.
func (w *crew) prepare() {
	w.away.leave(false)
	for _, m := range w.mourned {
		m.start()
	}
}

// gather reverts prepare: the clients with Wills leave, and the absent listener
// returns.
func (w *crew) gather() {
	for _, m := range w.mourned {
		m.leave(true)
	}
	w.away.start()
}

// served waits until every publisher has got a further acknowledgement.
func (w *crew) served(ctx context.Context) error {
	before := make(map[*publisher]int)
	for _, p := range w.publishers {
		before[p] = p.acks()
	}
	return w.cluster.until(ctx, "every publisher is served", func(context.Context) error {
		for _, p := range w.publishers {
			if p.qos > 0 && p.acks() == before[p] {
				return fmt.Errorf("nothing of %s is acknowledged", p.stream)
			}
		}
		return nil
	})
}

// move has all clients with a kept session move to the next node and back.
func (w *crew) move(ctx context.Context) {
	serving := w.cluster.serving(ctx)
	if len(serving) == 0 {
		return
	}
	for step := range 2 {
		var moving sync.WaitGroup
		for _, s := range w.sessions {
			if !s.kept || s == w.away {
				continue
			}
			to := serving[(s.home+1+step)%len(serving)].endpoint
			moving.Go(func() {
				select {
				case s.moves <- to:
				case <-time.After(longPatience): // it has no connection to move
				case <-ctx.Done():
				}
			})
		}
		moving.Wait()
		_ = w.cluster.until(ctx, "everybody has moved", func(context.Context) error { return w.connectedBut(w.away) })
	}
}

func (w *crew) connectedBut(absent *session) error {
	for _, s := range w.sessions {
		if s != absent && !s.connected() {
			return fmt.Errorf("%s is not connected", s.name)
		}
	}
	return nil
}

// pending lists the unfinished work of clients.
func (w *crew) pending() (list []string) {
	if n := w.load.busy.Load(); n > 0 {
		list = append(list, fmt.Sprintf("%d callers wait for answers", n))
	}
	for _, s := range w.sessions {
		if n := s.waiting(); n > 0 {
			list = append(list, fmt.Sprintf("%s waits for %d acknowledgements", s.name, n))
		}
		if !s.connected() {
			list = append(list, s.name+" is not connected")
		}
	}
	return list
}

// retainedStreams are the streams of retained messages.
func (w *crew) retainedStreams() (streams []string) {
	for _, p := range w.publishers {
		if p.retain {
			streams = append(streams, p.stream)
		}
	}
	slices.SortFunc(streams, strings.Compare)
	return streams
}
