package drill

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// The time that a client waits for a sign of life before it goes elsewhere, and the
// bound of its growth while there is none: on a slow machine clients become patient.
const (
	shortPatience = 2 * time.Second
	longPatience  = time.Minute
	pingEvery     = time.Second
	expiry        = uint32(24 * 60 * 60) // seconds that kept sessions are kept
)

// A session is an MQTT client that reconnects, at another node if necessary, and
// records its events. Its messages in flight outlive its connections.
type session struct {
	name     string
	kept     bool
	stubborn bool // stays on a silent connection until it is closed
	once     bool // does not reconnect by itself
	filters  []string
	will     func() *will     // for each connection; nil for none
	lost     func(last *will) // called after the end of a connection without DISCONNECT; optional
	hear     func(s *session, w *wire, p *packets.Publish)
	nodes    []endpoint
	home     int // the node it prefers
	record   *recorder

	moves chan endpoint

	mu          sync.Mutex
	wire        *wire // nil while there is none
	connections int
	inflight    []*outgoing // in the order of sending
	settled     int         // number of acknowledged messages
	lastID      uint16
	received    map[uint16]bool // packet ids of QoS 2 that are not released

	silent atomic.Int32 // number of silent connections given up in a row
	stop   context.CancelFunc
	done   chan struct{}
	abrupt atomic.Bool // the end of the session closes the connection without DISCONNECT
}

// An outgoing is a message that is not acknowledged.
type outgoing struct {
	packet   packets.Publish
	stream   string
	number   int
	released bool // PUBREC was received
}

// A will is the Will of a client.
type will struct {
	id    string
	delay uint32 // seconds
}

// topicWills is below which wills are published.
const topicWills = "drill/will"

// start connects the client until leave.
func (s *session) start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.done = stop, make(chan struct{})
	if s.received == nil {
		s.received, s.moves = make(map[uint16]bool), make(chan endpoint)
	}
	go func() {
		defer close(s.done)
		s.run(ctx)
	}()
}

// leave disconnects the client, abruptly or with DISCONNECT. It does nothing for a
// client that is not started.
func (s *session) leave(abrupt bool) {
	if s.stop == nil {
		return
	}
	s.abrupt.Store(abrupt)
	s.stop()
	<-s.done
}

// patience is the time that the client waits for a sign of life.
func (s *session) patience() time.Duration {
	return min(shortPatience<<min(s.silent.Load(), 10), longPatience)
}

// run connects, again and again, in turn to all nodes.
func (s *session) run(ctx context.Context) {
	for next := s.home; ctx.Err() == nil; next++ {
		w, err := s.connect(ctx, s.nodes[next%len(s.nodes)])
		if err != nil {
			s.gaveUp(err)
			if next%len(s.nodes) == (s.home+len(s.nodes)-1)%len(s.nodes) { // all were tried
				pause(ctx, 100*time.Millisecond)
			}
			continue
		}
		for w != nil {
			w = s.serve(ctx, w)
		}
		if s.once {
			return
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// gaveUp notes that nothing came in time.
func (s *session) gaveUp(err error) {
	if timedOut(err) {
		s.silent.Add(1)
	}
}

// connect opens a connection to a node.
func (s *session) connect(ctx context.Context, to endpoint) (*wire, error) {
	packet := &packets.Connect{
		ProtocolName: "MQTT", ProtocolVersion: 5, ClientID: s.name, CleanStart: !s.kept, Properties: &packets.Properties{},
	}
	if s.kept {
		keep := expiry
		packet.Properties.SessionExpiryInterval = &keep
	}
	var last *will
	if s.will != nil {
		last = s.will()
		packet.WillFlag, packet.WillQOS, packet.WillTopic, packet.WillMessage = true, 2, topicWills+"/"+s.name, []byte(last.id)
		packet.WillProperties = &packets.Properties{WillDelayInterval: &last.delay}
	}
	w, err := dial(ctx, to, packet, s.patience())
	if err != nil {
		return nil, err
	}
	s.connections++
	w.number, w.will = s.connections, last
	s.record.add(Event{Kind: Opened, Client: s.name, Node: w.node, Connection: w.number, Present: w.present, Kept: s.kept})
	if last != nil {
		s.record.add(Event{Kind: WillSet, Client: s.name, Kept: s.kept, ID: last.id})
	}
	return w, nil
}

// serve uses a connection until it ends. It returns the one that the client has
// moved to, nil for none.
func (s *session) serve(ctx context.Context, w *wire) *wire {
	ended := make(chan string, 1)
	go func() { ended <- s.listen(w) }()
	s.begin(w)
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case code := <-ended:
			s.closed(w, code)
			return nil
		case to := <-s.moves:
			return s.move(ctx, w, to, ended)
		case <-ping.C:
			_ = w.write(&packets.Pingreq{}) // the reader detects a failure
		case <-ctx.Done():
			if !s.abrupt.Load() {
				_ = w.write(&packets.Disconnect{Properties: &packets.Properties{}})
			}
			_ = w.conn.Close()
			s.closed(w, <-ended)
			return nil
		}
	}
}

// closed notes the end of a connection.
func (s *session) closed(w *wire, code string) {
	s.mu.Lock()
	s.wire = nil
	s.mu.Unlock()
	_ = w.conn.Close()
	s.record.add(Event{Kind: Closed, Client: s.name, Node: w.node, Connection: w.number, Code: code})
	if s.lost != nil {
		s.lost(w.will)
	}
}

// move connects to a node while a connection stands, which has to end by that.
func (s *session) move(ctx context.Context, w *wire, to endpoint, ended chan string) *wire {
	next, err := s.connect(ctx, to)
	if err != nil {
		s.gaveUp(err)
		_ = w.conn.Close() // it goes the usual way
		s.closed(w, <-ended)
		return nil
	}
	code := "nothing"
	timer := time.NewTimer(longPatience)
	defer timer.Stop()
	select {
	case code = <-ended:
	case <-timer.C:
		_ = w.conn.Close()
		<-ended
	}
	s.record.add(Event{Kind: Moved, Client: s.name, Node: next.node, Connection: next.number, Code: code})
	return next
}

// begin repeats the messages in flight, and subscribes if the bridge has no session.
func (s *session) begin(w *wire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wire = w
	if !w.present {
		clear(s.received)
	}
	for _, o := range s.inflight {
		s.send(o, true)
	}
	if w.present || len(s.filters) == 0 {
		s.record.add(Event{Kind: Subscribed, Client: s.name, Node: w.node, Connection: w.number})
		return
	}
	packet := &packets.Subscribe{PacketID: 1, Properties: &packets.Properties{}}
	for _, filter := range s.filters {
		packet.Subscriptions = append(packet.Subscriptions, packets.SubOptions{Topic: filter, QoS: 2})
	}
	_ = w.write(packet)
}

// listen reads packets until the connection ends, and returns the bridge's reason for
// the end.
func (s *session) listen(w *wire) string {
	for first := true; ; first = false {
		if !s.stubborn {
			_ = w.conn.SetReadDeadline(time.Now().Add(s.patience()))
		}
		packet, err := packets.ReadPacket(w.read)
		if timedOut(err) {
			s.gaveUp(err)
			return codeImpatient
		}
		if err != nil {
			return ""
		}
		if !first {
			s.silent.Store(0)
		}
		if d, ok := packet.Content.(*packets.Disconnect); ok {
			return fmt.Sprintf("0x%02X", d.ReasonCode)
		}
		s.handle(w, packet.Content)
	}
}

func (s *session) handle(w *wire, content packets.Packet) {
	switch p := content.(type) {
	case *packets.Publish:
		s.take(w, p)
	case *packets.Pubrel:
		s.mu.Lock()
		delete(s.received, p.PacketID)
		s.mu.Unlock()
		_ = w.write(&packets.Pubcomp{PacketID: p.PacketID, Properties: &packets.Properties{}})
	case *packets.Suback:
		s.record.add(Event{Kind: Subscribed, Client: s.name, Node: w.node, Connection: w.number})
	case *packets.Puback:
		s.acknowledged(w, p.PacketID, p.ReasonCode)
	case *packets.Pubrec:
		s.half(w, p.PacketID, p.ReasonCode)
	case *packets.Pubcomp:
		if p.ReasonCode == packets.PubcompPacketIdentifierNotFound {
			p.ReasonCode = 0 // the bridge has completed it before
		}
		s.acknowledged(w, p.PacketID, p.ReasonCode)
	}
}

// take hands a message on, and acknowledges it.
func (s *session) take(w *wire, p *packets.Publish) {
	s.mu.Lock()
	before := p.QoS == 2 && s.received[p.PacketID]
	if p.QoS == 2 {
		s.received[p.PacketID] = true
	}
	s.mu.Unlock()
	if !before && s.hear != nil {
		s.hear(s, w, p)
	}
	switch p.QoS {
	case 1:
		_ = w.write(&packets.Puback{PacketID: p.PacketID, Properties: &packets.Properties{}})
	case 2:
		_ = w.write(&packets.Pubrec{PacketID: p.PacketID, Properties: &packets.Properties{}})
	}
}

// publish sends a message. It reports whether there was room in the window, and
// for QoS 0 a connection.
func (s *session) publish(topic, stream string, number int, qos byte, retain bool) bool {
	const window = 8
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inflight) >= window || qos == 0 && s.wire == nil {
		return false
	}
	o := &outgoing{stream: stream, number: number, packet: packets.Publish{
		Topic: topic, QoS: qos, Retain: retain, Payload: fmt.Appendf(nil, "%s %d", stream, number), Properties: &packets.Properties{},
	}}
	if qos > 0 {
		s.lastID = s.lastID%60_000 + 1
		o.packet.PacketID = s.lastID + 1 // 1 is of SUBSCRIBE
		s.inflight = append(s.inflight, o)
	}
	s.send(o, false)
	return true
}

// send writes a message, or its PUBREL. The caller holds s.mu.
func (s *session) send(o *outgoing, again bool) {
	if o.released {
		_ = s.wire.write(&packets.Pubrel{PacketID: o.packet.PacketID, Properties: &packets.Properties{}})
		return
	}
	if s.wire == nil {
		return // it is sent with the next connection
	}
	s.record.add(Event{ // before any delivery
		Kind: Sent, Client: s.name, Node: s.wire.node, Connection: s.wire.number, Stream: o.stream, Number: o.number, QoS: o.packet.QoS,
	})
	o.packet.Duplicate = again && s.wire.present
	_ = s.wire.write(&o.packet)
}

// half is PUBREC.
func (s *session) half(w *wire, id uint16, reason byte) {
	if reason >= 0x80 {
		s.acknowledged(w, id, reason)
		return
	}
	s.mu.Lock()
	for _, o := range s.inflight {
		if o.packet.PacketID == id {
			o.released = true
		}
	}
	s.mu.Unlock()
	_ = w.write(&packets.Pubrel{PacketID: id, Properties: &packets.Properties{}})
}

// acknowledged ends a message.
func (s *session) acknowledged(w *wire, id uint16, reason byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.inflight {
		if o.packet.PacketID != id {
			continue
		}
		e := Event{Kind: Acked, Client: s.name, Node: w.node, Connection: w.number, Stream: o.stream, Number: o.number, QoS: o.packet.QoS}
		if reason >= 0x80 {
			e.Kind, e.Code = Refused, fmt.Sprintf("0x%02X", reason)
		}
		s.record.add(e)
		s.settled++
		s.inflight = append(s.inflight[:i], s.inflight[i+1:]...)
		return
	}
}

// connected reports whether there is a connection.
func (s *session) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wire != nil
}

// acks is the number of acknowledged messages so far, including those with an error.
func (s *session) acks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}

// waiting is the number of messages that are not acknowledged.
func (s *session) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inflight)
}
