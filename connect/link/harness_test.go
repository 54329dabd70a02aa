package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// tester is the common part of [testing.T] and rapid's.
type tester interface {
	eventually.T
	Cleanup(func())
	Errorf(format string, args ...any)
}

// A gate lets a process write to a journal until it is killed.
type gate struct {
	*broker.MemoryJournal
	mu   sync.Mutex
	dead bool
}

var errDead = errors.New("the process is dead")

func (g *gate) Write(ctx context.Context, keyed []broker.KeyedValue, entry []byte) (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return 0, errDead
	}
	return g.MemoryJournal.Write(ctx, keyed, entry)
}

func (g *gate) Trim(ctx context.Context, seq uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return errDead
	}
	return g.MemoryJournal.Trim(ctx, seq)
}

// A site is a broker that is killed and started again from its journal.
type site struct {
	t       tester
	mark    string
	disk    *broker.MemoryJournal
	records *recordstest.Memory[Record]
	change  func(*broker.Options)

	gate    *gate
	broker  *broker.Broker
	address string // of a listener that stays while the process is away

	links   *Service
	configs []Config
	stop    context.CancelFunc
	done    chan struct{}
	seen    *broker.Broker
	mu      sync.Mutex
}

func newSite(t tester, mark string, change ...func(*broker.Options)) *site {
	s := &site{t: t, mark: mark, disk: new(broker.MemoryJournal), records: recordstest.New[Record]()}
	s.change = func(o *broker.Options) {
		for _, f := range change {
			f(o)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("%v", err)
	}
	s.address = l.Addr().String()
	var accepting sync.WaitGroup
	accepting.Go(func() { s.accept(l) })
	s.start()
	t.Cleanup(func() {
		_ = l.Close()
		s.kill()
		accepting.Wait()
	})
	return s
}

// accept hands connections to the broker that is there at the moment.
func (s *site) accept(l net.Listener) {
	var carrying sync.WaitGroup
	defer carrying.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		b := s.seen
		s.mu.Unlock()
		if b == nil {
			_ = conn.Close()
			continue
		}
		inside, err := b.Inside("mqtt", grant.Of(s.principal()))
		if err != nil {
			_ = conn.Close()
			continue
		}
		carrying.Go(func() { join(conn, inside) })
	}
}

// join carries bytes between two connections until one ends.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	one := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
		_ = from.Close()
	}
	both.Go(func() { one(a, b) })
	both.Go(func() { one(b, a) })
	both.Wait()
}

func (s *site) principal() *protocol.Principal {
	return &protocol.Principal{ID: "agent", Kind: protocol.KindAgent, Space: protocol.DefaultSpace}
}

// start runs the process: the broker, and its links.
func (s *site) start() {
	s.gate = &gate{MemoryJournal: s.disk}
	options := broker.Options{
		Authenticate: func(context.Context, broker.Credentials) (*protocol.Principal, error) { return s.principal(), nil },
		Permissions:  permissions{}, Journal: s.gate, SysInterval: -1, Mark: s.mark, Readers: -1,
	}
	s.change(&options)
	b, err := broker.New(options)
	if err != nil {
		s.t.Fatalf("start %s: %v", s.mark, err)
	}
	s.broker = b
	s.mu.Lock()
	s.seen = b
	s.mu.Unlock()
	if len(s.configs) > 0 {
		s.run()
	}
}

// link has the site keep links.
func (s *site) link(configs ...Config) {
	s.configs = configs
	s.run()
}

func (s *site) run() {
	s.links = New(Options{
		Links: s.configs, Records: s.records, Root: "aibridge", BridgeID: s.mark, Mark: s.mark, MaxPacket: 1 << 20, ReceiveMaximum: 1024,
		Authenticate: func(context.Context, string) (*protocol.Principal, error) { return s.principal(), nil },
		Log:          slog.New(slog.DiscardHandler), pause: time.Millisecond,
	})
	s.links.Broker = inProcess{s.broker}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.done = cancel, make(chan struct{})
	go func(done chan struct{}) { defer close(done); _ = s.links.Run(ctx) }(s.done)
}

// kill ends the process: nothing more is stored, and nobody is told.
func (s *site) kill() {
	s.mu.Lock()
	s.seen = nil
	s.mu.Unlock()
	if s.broker == nil {
		return
	}
	s.gate.mu.Lock()
	s.gate.dead = true
	s.gate.mu.Unlock()
	if s.stop != nil {
		s.stop()
		<-s.done
		s.stop = nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.broker.Close(ctx)
	s.broker = nil
}

// connected waits until all links of the site are.
func (s *site) connected() {
	s.t.Helper()
	var problem string
	eventually.Holds(s.t, s.mark+" is linked", func() bool {
		return !slices.ContainsFunc(s.links.links, func(l *Link) bool {
			v, _ := l.look()
			problem = v.Problem
			return v.State != Connected
		})
	}, &problem)
}

// recorded reports whether the session of a client would outlive the process with a
// subscription.
func (s *site) recorded(client string) (found bool) {
	_ = s.disk.Copy().Load(context.Background(), func(key string, value []byte) error {
		found = found || strings.HasSuffix(key, "\x00"+client) && bytes.Contains(value, []byte(`"f":`))
		return nil
	}, func(uint64, []byte) error { return nil })
	return found
}

// counted is the number of the first link's messages with an outcome.
func (s *site) counted(outbound bool, outcome string) uint64 {
	l := s.links.links[0]
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[tally{outbound, outcome}]
}

type permissions struct{}

func (permissions) MayPublish(_ *broker.Client, topic string, _ bool) broker.Verdict {
	if strings.HasPrefix(topic, "forbidden/") {
		return broker.NotAuthorized("not your topic")
	}
	return broker.Verdict{}
}

func (permissions) MaySubscribe(_ *broker.Client, filter string) broker.Verdict {
	if strings.HasPrefix(filter, "forbidden/") {
		return broker.NotAuthorized("not your filter")
	}
	return broker.Verdict{}
}

// inProcess is a broker as a link sees it.
type inProcess struct{ *broker.Broker }

func (b inProcess) Dial(who grant.Grant) (net.Conn, error) { return b.Inside("link", who) }

func (b inProcess) Session(space protocol.SpaceID, client string) (Session, bool) {
	info, ok := b.Broker.Session(broker.SessionID{Space: space, Client: client})
	s := Session{Inflight: info.Inflight, Queued: info.Queued, Bytes: info.QueuedBytes, Dropped: info.Dropped}
	for _, sub := range info.Subscriptions {
		s.Filters = append(s.Filters, sub.Filter)
	}
	return s, ok
}

func (b inProcess) End(space protocol.SpaceID, client string) {
	b.Kick(broker.SessionID{Space: space, Client: client}, true)
}

func (b inProcess) ForgetReceived(space protocol.SpaceID, client string) {
	b.Broker.ForgetReceived(broker.SessionID{Space: space, Client: client})
}

// A client is an MQTT client with a kept session, which it never forgets: it sends
// unacknowledged messages again, and takes a QoS 2 message once.
type client struct {
	site     *site
	id       string
	filter   string // it subscribes to, "" for none
	conn     net.Conn
	began    map[uint16]bool // QoS 2 messages received and not released
	mu       sync.Mutex
	got      []packet.Publish
	running  sync.WaitGroup
	acks     chan packet.Type
	finished bool
}

func newClient(s *site, id, filter string) *client {
	c := &client{site: s, id: id, filter: filter, began: map[uint16]bool{}, acks: make(chan packet.Type, 16)}
	s.t.Cleanup(c.close)
	c.connect()
	return c
}

func (c *client) close() {
	c.mu.Lock()
	c.finished = true
	c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.running.Wait()
}

// connect makes a connection, and returns when the client is subscribed.
func (c *client) connect() {
	c.site.t.Helper()
	if c.conn != nil {
		_ = c.conn.Close()
		c.running.Wait()
	}
	conn, err := c.site.broker.Inside("mqtt", grant.Of(c.site.principal()))
	if err != nil {
		c.site.t.Fatalf("%v", err)
	}
	c.conn = conn
	end := newSide("the site", conn, packet.V5, packet.MaxRemaining)
	request := &packet.Connect{Version: packet.V5, ClientID: []byte(c.id)}
	request.Properties.SetNumber(packet.SessionExpiry, forever)
	if _, err := end.hello(context.Background(), request, false); err != nil {
		c.site.t.Fatalf("%s: %v", c.id, err)
	}
	subscribed := make(chan struct{})
	c.running.Go(func() { c.read(end, subscribed) })
	if c.filter == "" {
		return
	}
	s := packet.Subscribe{PacketID: 60000, Filters: []packet.Subscription{{Filter: []byte(c.filter), QoS: 2, RetainAsPublished: true}}}
	if err := end.say(s.Append(nil, packet.V5)); err != nil {
		c.site.t.Fatalf("%v", err)
	}
	<-subscribed
}

func (c *client) read(end *side, subscribed chan struct{}) {
	for {
		h, body, err := end.read()
		if err != nil {
			return
		}
		switch typ := h.Type(); typ {
		case packet.SUBACK:
			close(subscribed)
		case packet.PUBLISH:
			var p packet.Publish
			if p.Decode(packet.V5, h, body) == nil {
				c.take(end, &p)
			}
		case packet.PUBREL:
			id := uint16(body[0])<<8 | uint16(body[1])
			delete(c.began, id)
			_ = end.say(packet.AppendAck(nil, packet.V5, packet.PUBCOMP, id, 0))
		case packet.PUBACK, packet.PUBREC, packet.PUBCOMP:
			c.acks <- typ
		}
	}
}

func (c *client) take(end *side, p *packet.Publish) {
	if p.QoS < 2 || !c.began[p.PacketID] {
		kept := *p
		kept.Topic, kept.Payload = slices.Clone(p.Topic), slices.Clone(p.Payload)
		kept.Properties.User = slices.Clone(p.Properties.User)
		for i, u := range kept.Properties.User {
			kept.Properties.User[i] = packet.UserProperty{Key: slices.Clone(u.Key), Value: slices.Clone(u.Value)}
		}
		kept.Properties.SetBytes(packet.ResponseTopic, slices.Clone(p.Properties.Bytes(packet.ResponseTopic)))
		c.mu.Lock()
		c.got = append(c.got, kept)
		c.mu.Unlock()
	}
	switch p.QoS {
	case 1:
		_ = end.say(packet.AppendAck(nil, packet.V5, packet.PUBACK, p.PacketID, 0))
	case 2:
		c.began[p.PacketID] = true
		_ = end.say(packet.AppendAck(nil, packet.V5, packet.PUBREC, p.PacketID, 0))
	}
}

// publish waits until the broker has the message.
func (c *client) publish(topic, payload string, qos byte, change ...func(*packet.Publish)) {
	c.site.t.Helper()
	p := packet.Publish{Topic: []byte(topic), Payload: []byte(payload), QoS: qos}
	if qos > 0 {
		p.PacketID = 1
	}
	for _, f := range change {
		f(&p)
	}
	c.send(p.Append(nil, packet.V5))
	switch qos {
	case 1:
		c.await(packet.PUBACK)
	case 2:
		c.await(packet.PUBREC)
		c.send(packet.AppendAck(nil, packet.V5, packet.PUBREL, 1, 0))
		c.await(packet.PUBCOMP)
	}
}

func (c *client) send(b []byte) {
	c.site.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.site.t.Fatalf("%s: %v", c.id, err)
	}
}

func (c *client) await(want packet.Type) {
	c.site.t.Helper()
	select {
	case typ := <-c.acks:
		if typ != want {
			c.site.t.Fatalf("%s instead of %s", typ, want)
		}
	case <-time.After(eventually.Patience):
		c.site.t.Fatalf("no %s", want)
	}
}

// texts are the payloads that came.
func (c *client) texts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]string, len(c.got))
	for i := range c.got {
		list[i] = string(c.got[i].Payload)
	}
	return list
}

// takes waits for a message with a payload.
func (c *client) takes(payload string) (m packet.Publish) {
	c.site.t.Helper()
	eventually.Holds(c.site.t, payload+" at "+c.id, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.IndexFunc(c.got, func(p packet.Publish) bool { return string(p.Payload) == payload })
		if i >= 0 {
			m = c.got[i]
		}
		return i >= 0
	}, func() any { return c.texts() })
	return m
}

var _ tester = testing.TB(nil)
