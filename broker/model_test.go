package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
)

// The model drives random clients against the broker and holds what they
// receive against what they are owed: nothing acknowledged is lost, the order
// of one publisher's messages on one topic is kept, QoS 2 comes exactly once
// and QoS 1 at least once — whatever connections are cut, sessions taken over
// and processes killed meanwhile. [MQTT-4.3.2-1] [MQTT-4.3.3-1] [MQTT-4.3.3-5] [MQTT-4.5.0-2]

// A world is one run of the model.
type world struct {
	*rapid.T
	node    *node
	journal *MemoryJournal
	readers int
	clients []*actor
	serial  int
}

// An actor is a client with the session state MQTT asks of it.
type actor struct {
	w       *world
	id      string
	version byte
	keeps   bool
	limit   uint32 // its Receive Maximum
	p       *peer  // nil while it is away
	mute    bool   // its PUBCOMP gets lost

	subs  map[string]byte
	sent  []*unacked       // its own publishes that are not acknowledged
	seen  map[uint16]bool  // QoS 2 identifiers between PUBLISH and PUBREL
	held  []publish        // received and not acknowledged yet
	owed  map[string]*owed // by payload
	got   []string         // payloads, as the application sees them
	count map[string]int
}

type unacked struct {
	publish
	released bool // PUBREC came
	killed   bool // the broker was, since it was sent: it may have gone out with QoS 0 and not be on record
	order    int
}

// An owed message may come; it must if it is required.
type owed struct {
	qos      byte
	required bool
	again    bool // may come more than once
	loose    bool // its place in the order is not known
	order    int
	stream   string // publisher and topic
}

func (w *world) start() {
	w.node = startNode(w.T, w.readers, func(o *Options) {
		if w.journal != nil {
			o.Journal = w.journal
			o.checkpointAfter = 300
		}
	})
}

// kill ends the broker as kill -9 would and starts it again with what the
// journal has at that moment.
func (w *world) kill() {
	left := w.journal.Copy()
	for _, a := range w.clients {
		a.cut()
		for _, m := range a.sent {
			m.killed = true
		}
	}
	w.node.stop()
	w.journal = left
	w.start()
}

func (a *actor) connected() bool { return a.p != nil }

func (a *actor) connect() {
	old := a.p
	p := a.w.node.connect(a.version, a.id, func(c *packet.Connect) {
		c.CleanStart = !a.keeps
		if a.version == packet.V5 {
			c.Properties.SetNumber(packet.ReceiveMaximum, a.limit)
			if a.keeps {
				c.Properties.SetNumber(packet.SessionExpiry, 3600)
			}
		}
	})
	if old != nil {
		_ = old.nc.Close()
	}
	a.p, a.held = p, nil
	if !p.connack.SessionPresent {
		a.forget()
	}
	for _, m := range slices.Clone(a.sent) { // [MQTT-4.4.0-1] is the client's duty as well
		if m.released {
			p.send(packet.AppendAck(nil, a.version, packet.PUBREL, m.PacketID, 0))
		} else {
			m.Dup = true
			a.owe(m, true)
			p.send(m.Append(nil, a.version))
		}
		a.settle(m.PacketID)
	}
}

// owe notes who is to receive m if it is routed now.
func (a *actor) owe(m *unacked, repeat bool) {
	for _, other := range a.w.clients {
		best := -1
		for f, granted := range other.subs {
			if topic.Match(f, string(m.Topic)) {
				best = max(best, int(min(granted, m.QoS)))
			}
		}
		o := other.owed[string(m.Payload)]
		if o == nil && best >= 0 && (other.connected() || other.keeps) {
			other.owed[string(m.Payload)] = &owed{qos: byte(best), again: best == 1, order: m.order, stream: a.id + " " + string(m.Topic), loose: repeat}
		} else if o != nil && repeat {
			o.again = o.again || m.QoS == 1 || best == 1 || o.qos == 0 && m.killed
			if best != int(o.qos) {
				o.loose, o.qos = true, 0
			}
		}
	}
}

// forget begins a new session: what the old one was owed need not come.
func (a *actor) forget() {
	a.check(false)
	a.subs, a.seen = map[string]byte{}, map[uint16]bool{}
	a.owed, a.got, a.count = map[string]*owed{}, nil, map[string]int{}
	for _, m := range a.sent {
		for _, other := range a.w.clients { // may have been routed, or may be again
			if o := other.owed[string(m.Payload)]; o != nil {
				o.required = false
			}
		}
	}
	a.sent = nil
}

func (a *actor) cut() {
	if a.p == nil {
		return
	}
	_ = a.p.nc.Close()
	a.p, a.held = nil, nil
	a.w.node.gone(a.id)
	if !a.keeps {
		a.forget()
	}
}

// subscribe replaces or makes a subscription.
func (a *actor) subscribe(filter string, qos byte) {
	a.p.send((&packet.Subscribe{PacketID: 1, Filters: []packet.Subscription{{Filter: []byte(filter), QoS: qos}}}).Append(nil, a.version))
	a.until(packet.SUBACK, 1)
	a.subs[filter] = qos
}

func (a *actor) unsubscribe(filter string) {
	a.p.send((&packet.Unsubscribe{PacketID: 1, Filters: [][]byte{[]byte(filter)}}).Append(nil, a.version))
	a.until(packet.UNSUBACK, 1)
	delete(a.subs, filter)
}

// publish sends a message; abandoned ones are cut off before the answer.
func (a *actor) publish(name string, qos byte, abandon bool) {
	w := a.w
	w.serial++
	payload := fmt.Sprintf("%s-%d", a.id, w.serial)
	m := &unacked{publish: publish{Topic: []byte(name), QoS: qos, Payload: []byte(payload)}, order: w.serial}
	if qos > 0 {
		m.PacketID = a.freeID()
		a.sent = append(a.sent, m)
	}
	a.owe(m, false)
	a.p.send(m.Append(nil, a.version))
	if abandon {
		a.cut()
		return
	}
	if qos > 0 {
		a.settle(m.PacketID)
	} else {
		a.ping()
	}
}

func (a *actor) freeID() uint16 {
	for id := uint16(10); ; id++ {
		if !slices.ContainsFunc(a.sent, func(m *unacked) bool { return m.PacketID == id }) {
			return id
		}
	}
}

// settle reads until a publish is acknowledged through and through.
func (a *actor) settle(id uint16) {
	at := slices.IndexFunc(a.sent, func(m *unacked) bool { return m.PacketID == id })
	m := a.sent[at]
	if m.QoS == 1 {
		a.until(packet.PUBACK, id)
	} else {
		if !m.released {
			a.until(packet.PUBREC, id)
			m.released = true
			a.p.send(packet.AppendAck(nil, a.version, packet.PUBREL, id, 0))
		}
		a.until(packet.PUBCOMP, id)
	}
	a.sent = slices.DeleteFunc(a.sent, func(o *unacked) bool { return o == m })
	for _, other := range a.w.clients {
		if o := other.owed[string(m.Payload)]; o != nil && o.qos > 0 && !o.loose && other.keeps {
			o.required = true
		}
	}
}

func (a *actor) ping() {
	a.p.send([]byte{0xC0, 0})
	a.until(packet.PINGRESP, 0)
}

// until reads up to a packet, and takes the messages that come before it.
func (a *actor) until(t packet.Type, id uint16) {
	for {
		h, body, ok := a.p.next(patience)
		if !ok {
			a.w.Fatalf("%s: connection ended before %v", a.id, t)
		}
		if h.Type() == t && (id == 0 || uint16(body[0])<<8|uint16(body[1]) == id) {
			return
		}
		a.incoming(h, body)
	}
}

func (a *actor) incoming(h packet.Header, body []byte) {
	switch h.Type() {
	case packet.PUBLISH:
		var m publish
		if err := m.Decode(a.version, h, body); err != nil {
			a.w.Fatalf("%s: %v", a.id, err)
		}
		a.deliver(m)
	case packet.PUBREL:
		id := uint16(body[0])<<8 | uint16(body[1])
		delete(a.seen, id)
		if a.mute {
			return
		}
		a.p.send(packet.AppendAck(nil, a.version, packet.PUBCOMP, id, 0))
	default:
		a.w.Fatalf("%s: unexpected %v %x", a.id, h.Type(), body)
	}
}

func (a *actor) deliver(m publish) {
	if m.QoS > 0 {
		a.held = append(a.held, m)
		if a.version == packet.V5 && len(a.held) > int(a.limit) {
			a.w.Fatalf("%s: %d messages are unacknowledged, limit %d", a.id, len(a.held), a.limit)
		}
	}
	if m.QoS == 2 {
		if a.seen[m.PacketID] {
			return
		}
		a.seen[m.PacketID] = true
	}
	payload := string(m.Payload)
	o := a.owed[payload]
	if o == nil {
		a.w.Fatalf("%s: %q was not owed", a.id, payload)
	}
	a.count[payload]++
	if !o.again && a.count[payload] > 1 {
		a.w.Fatalf("%s: %q with QoS %d came twice", a.id, payload, o.qos)
	}
	if a.count[payload] == 1 {
		a.got = append(a.got, payload)
	}
}

// acknowledge answers what is held.
func (a *actor) acknowledge() {
	held := a.held
	a.held = nil
	for _, m := range held {
		t := packet.PUBACK
		if m.QoS == 2 {
			t = packet.PUBREC
		}
		a.p.send(packet.AppendAck(nil, a.version, t, m.PacketID, 0))
	}
}

// check holds what was received against what was owed.
func (a *actor) check(all bool) {
	last := map[string]int{}
	for _, payload := range a.got {
		o := a.owed[payload]
		key := fmt.Sprint(o.stream, o.qos)
		if o.loose {
			continue
		}
		if o.order < last[key] {
			a.w.Fatalf("%s: %q came out of order: %v", a.id, payload, a.got)
		}
		last[key] = o.order
	}
	if missing := a.missing(); all && len(missing) > 0 {
		a.w.Fatalf("%s: never received %v; got %v", a.id, missing, a.got)
	}
}

func (a *actor) missing() (payloads []string) {
	for payload, o := range a.owed {
		if o.required && a.count[payload] == 0 {
			payloads = append(payloads, payload)
		}
	}
	return payloads
}

// finish lets everyone come back and receive the rest.
func (w *world) finish() {
	for _, a := range w.clients {
		if !a.connected() {
			a.connect()
		}
	}
	for _, a := range w.clients {
		for deadline := time.Now().Add(patience); ; {
			a.ping()
			a.acknowledge()
			if len(a.missing()) == 0 || time.Now().After(deadline) {
				break
			}
		}
		a.ping()
		a.check(true)
	}
}

func runModel(t *rapid.T, readers int, durable bool) {
	w := &world{T: t, readers: readers}
	if durable {
		w.journal = new(MemoryJournal)
	}
	w.start()
	defer func() { w.node.stop() }()
	for i := range 4 {
		a := &actor{
			w: w, id: fmt.Sprint("c", i), version: rapid.SampledFrom([]byte{4, 5}).Draw(t, "version"),
			keeps: rapid.IntRange(0, 3).Draw(t, "keeps") > 0, limit: uint32(rapid.IntRange(1, 4).Draw(t, "limit")),
			subs: map[string]byte{}, seen: map[uint16]bool{}, owed: map[string]*owed{}, count: map[string]int{},
		}
		w.clients = append(w.clients, a)
		defer func() {
			if a.p != nil {
				_ = a.p.nc.Close()
			}
		}()
	}
	filters := []string{"a", "b", "+", "a/#", "c/x"}
	topics := []string{"a", "b", "c/x", "a/y"}
	for range rapid.IntRange(5, 60).Draw(t, "steps") {
		a := w.clients[rapid.IntRange(0, 3).Draw(t, "who")]
		act := rapid.SampledFrom(strings.Fields("publish publish publish publish publish subscribe subscribe unsubscribe cut connect ack ack read lost abandon kill")).Draw(t, "act")
		if act == "kill" {
			if durable {
				w.kill()
			}
			continue
		}
		if !a.connected() || act == "connect" {
			a.connect()
			continue
		}
		switch act {
		case "publish", "abandon":
			a.publish(rapid.SampledFrom(topics).Draw(t, "topic"), byte(rapid.IntRange(0, 2).Draw(t, "qos")), act == "abandon")
		case "subscribe":
			a.subscribe(rapid.SampledFrom(filters).Draw(t, "filter"), byte(rapid.IntRange(0, 2).Draw(t, "qos")))
		case "unsubscribe":
			a.unsubscribe(rapid.SampledFrom(filters).Draw(t, "filter"))
		case "cut":
			a.cut()
		case "ack":
			a.ping()
			a.acknowledge()
		case "read":
			a.ping()
		case "lost": // it completes QoS 2 and the broker does not learn it
			a.mute = true
			a.ping()
			a.acknowledge()
			a.ping()
			a.mute = false
			if rapid.Bool().Draw(t, "kill") && durable {
				w.kill()
			} else {
				a.cut()
			}
		}
	}
	w.finish()
}

func TestModel(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		for name, durable := range map[string]bool{"memory": false, "journal": true} {
			t.Run(name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { runModel(t, readers, durable) })
			})
		}
	})
}
