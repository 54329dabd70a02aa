package link

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
)

// A relay carries packets between the two sides of a link while both are
// connected. Each side is read by a goroutine of its own.
type relay struct {
	link         *Link
	local, there *side
	out, in      way
	mark, other  string // of this bridge, and of the remote one if it is known
	qos          byte   // highest that the remote broker takes
	retains      bool   // the remote broker can
	silence      time.Duration
	heard        atomic.Int64 // when the remote broker said something, Unix nanoseconds

	mu      sync.Mutex
	lowered map[uint16]bool // QoS 2 messages that went out with less
}

// Identifiers of the packets that ask for subscriptions. Messages have identifiers
// up to the greatest number under way, which is far below.
const (
	subscribeID   = 65535
	unsubscribeID = 65534
)

// errHeldBack is the error for a message of one broker for which the other has no
// room. The message stays at its sender, which sends it again later.
var errHeldBack = errors.New("no room for a message")

// run carries packets until one of the sides ends, and returns the reason.
func (r *relay) run(ended <-chan struct{}) error {
	r.heard.Store(time.Now().UnixNano())
	errs := make(chan error, 3)
	var running sync.WaitGroup
	stop := make(chan struct{})
	running.Go(func() { errs <- pass(r.local, r.there, r.fromHere) })
	running.Go(func() { errs <- pass(r.there, r.local, r.fromThere) })
	running.Go(func() { errs <- r.ping(stop) })
	var err error
	select {
	case err = <-errs:
	case <-ended:
	}
	close(stop)
	reason := packet.NormalDisconnection
	if violation, ok := errors.AsType[*packet.Error](err); ok {
		reason = violation.Reason
	}
	r.local.goodbye(packet.NormalDisconnection)
	r.there.goodbye(reason)
	running.Wait()
	return err
}

// pass hands the packets of a side to a function. Packets that it writes are sent
// when no more have arrived.
func pass(from, to *side, take func(packet.Header, []byte) error) error {
	for {
		h, body, err := from.read()
		if err != nil {
			return err
		}
		if err := take(h, body); err != nil {
			return err
		}
		if from.more() {
			continue
		}
		if err := to.flush(); err != nil {
			return err
		}
		if err := from.flush(); err != nil {
			return err
		}
	}
}

// ping keeps both connections alive, and notices a remote broker that is silent.
func (r *relay) ping(stop <-chan struct{}) error {
	beat := time.NewTicker(r.silence / 2)
	defer beat.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-beat.C:
		}
		if time.Since(time.Unix(0, r.heard.Load())) > r.silence+r.silence/2 {
			return errors.New("the remote broker is silent")
		}
		for _, s := range []*side{r.there, r.local} {
			if err := s.say([]byte{byte(packet.PINGREQ) << 4, 0}); err != nil {
				return err
			}
		}
	}
}

// A hearing handles the packets of a side.
type hearing struct {
	from     *side
	way      *way // the rules whose filters were subscribed to there
	message  func(packet.Header, []byte) error
	answer   func(packet.Type, []byte) error
	released func([]byte) error
}

// fromHere takes a packet of the bridge's own broker.
func (r *relay) fromHere(h packet.Header, body []byte) error {
	return r.hear(h, body, hearing{r.local, &r.out, r.goesOut, r.answersIn, r.releasesOut})
}

// fromThere takes a packet of the remote broker.
func (r *relay) fromThere(h packet.Header, body []byte) error {
	r.heard.Store(time.Now().UnixNano())
	return r.hear(h, body, hearing{r.there, &r.in, r.comesIn, r.answersOut, r.releasesIn})
}

func (r *relay) hear(h packet.Header, body []byte, by hearing) error {
	switch typ := h.Type(); typ {
	case packet.PUBLISH:
		return by.message(h, body)
	case packet.PUBACK, packet.PUBREC, packet.PUBCOMP:
		return by.answer(typ, body)
	case packet.PUBREL:
		return by.released(body)
	case packet.SUBACK:
		return r.subscribed(by.from, by.way, body)
	case packet.UNSUBACK, packet.PINGRESP:
		return nil
	case packet.DISCONNECT:
		return r.disconnected(by.from, body)
	default:
		return by.from.wrong(&packet.Error{Reason: packet.ProtocolError, Text: typ.String() + " to a client"})
	}
}

func (r *relay) disconnected(from *side, body []byte) error {
	var d packet.Disconnect
	if err := d.Decode(from.version, body); err != nil {
		return from.wrong(err)
	}
	if d.Reason == packet.SessionTakenOver {
		return fmt.Errorf("%s ends the connection: another client uses the same client id", from.name)
	}
	why := fmt.Sprintf("%s ends the connection: %s", from.name, d.Reason)
	if text := d.Properties.Bytes(packet.ReasonString); len(text) > 0 {
		why += fmt.Sprintf(" (%.200q)", text)
	}
	return errors.New(why)
}

// subscribed reads a broker's answer about the filters of a way.
func (r *relay) subscribed(from *side, w *way, body []byte) error {
	var s packet.Suback
	if err := s.Decode(from.version, packet.SUBACK, body); err != nil {
		return from.wrong(err)
	}
	if len(s.Reasons) != len(w.rules) {
		return from.wrong(&packet.Error{Reason: packet.ProtocolError, Text: "SUBACK for another number of filters"})
	}
	var refused []string
	for i, reason := range s.Reasons {
		if reason.Failed() {
			refused = append(refused, fmt.Sprintf("%s refuses %q: %s", from.name, w.from(&w.rules[i]), reason))
		}
	}
	r.link.refusedFilters(w.outbound, refused)
	return nil
}

// goesOut carries a message of the bridge to the remote broker.
func (r *relay) goesOut(h packet.Header, body []byte) error {
	var p packet.Publish
	if err := p.Decode(r.local.version, h, body); err != nil {
		return r.local.wrong(err)
	}
	was := trailOf(&p.Properties)
	if was.crosses(r.mark, r.other) {
		return r.drops(r.local, &p, true, outcomeLooped)
	}
	name, rule := r.out.carry(string(p.Topic))
	if rule == nil {
		return r.drops(r.local, &p, true, outcomeUnmapped)
	}
	id, qos := p.PacketID, p.QoS
	if p.QoS > r.qos {
		if p.QoS = r.qos; p.QoS == 0 {
			p.PacketID, p.Dup = 0, false
		}
	}
	p.Retain = rule.retain(p.Retain) && r.retains
	r.convert(&p, name, &r.out, &r.in)
	was.leave(&p.Properties, r.mark)
	b := p.Append(nil, r.there.version)
	if len(b) > r.there.takes {
		p.PacketID, p.QoS = id, qos
		return r.drops(r.local, &p, true, outcomeTooLarge)
	}
	if qos == 2 && p.QoS == 1 {
		r.lower(id)
	}
	if err := r.there.write(b); err != nil || p.QoS > 0 {
		return err // a message that is acknowledged is counted then
	}
	r.link.count(true, outcomeCarried)
	if qos > 0 {
		return r.settle(r.local, qos, id)
	}
	return nil
}

// comesIn carries a message of the remote broker to the bridge.
func (r *relay) comesIn(h packet.Header, body []byte) error {
	var p packet.Publish
	if err := p.Decode(r.there.version, h, body); err != nil {
		return r.there.wrong(err)
	}
	switch {
	case p.Properties.Has(packet.TopicAlias):
		return r.there.wrong(&packet.Error{Reason: packet.TopicAliasInvalid, Text: "a topic alias, for which nobody asked"})
	case !topic.ValidName(p.Topic):
		return r.there.wrong(&packet.Error{Reason: packet.TopicNameInvalid, Text: "a message without the name of a topic"})
	case p.Properties.Has(packet.ResponseTopic) && !topic.ValidName(p.Properties.Bytes(packet.ResponseTopic)):
		return r.there.wrong(&packet.Error{Reason: packet.ProtocolError, Text: "a response topic with wildcards"})
	}
	place := r.mark + "/" + r.link.config.Name
	was := trailOf(&p.Properties)
	if was.crosses(r.mark, place) {
		return r.drops(r.there, &p, false, outcomeLooped)
	}
	name, rule := r.in.carry(string(p.Topic))
	if rule == nil {
		return r.drops(r.there, &p, false, outcomeUnmapped)
	}
	p.Retain = rule.retain(p.Retain)
	r.convert(&p, name, &r.in, &r.out)
	was.leave(&p.Properties, r.other, place)
	b := p.Append(nil, r.local.version)
	if len(b) > r.local.takes {
		return r.drops(r.there, &p, false, outcomeTooLarge)
	}
	if p.QoS == 0 {
		r.link.count(false, outcomeCarried)
	}
	return r.local.write(b)
}

// convert gives a message the topic that it has on the other side, and takes off the
// properties of the connection that it came by.
func (r *relay) convert(p *packet.Publish, name string, along, answers *way) {
	p.Topic = []byte(name)
	p.Properties.Drop(packet.SubscriptionID)
	p.Properties.Drop(packet.TopicAlias)
	if p.Properties.Has(packet.ResponseTopic) {
		if back := along.back(string(p.Properties.Bytes(packet.ResponseTopic)), answers); back != "" {
			p.Properties.SetBytes(packet.ResponseTopic, []byte(back))
		}
	}
}

// drops acknowledges a message that is not carried, so that its broker forgets it.
func (r *relay) drops(from *side, p *packet.Publish, outbound bool, outcome string) error {
	r.link.count(outbound, outcome)
	if p.QoS == 0 {
		return nil
	}
	return r.settle(from, p.QoS, p.PacketID)
}

// settle has a broker believe that a message arrived. Of QoS 2 the PUBREL that
// follows goes to the other side, which knows nothing of it, and answers.
func (r *relay) settle(from *side, qos byte, id uint16) error {
	if qos == 1 {
		return from.ack(packet.PUBACK, id, packet.Success)
	}
	if from == r.local {
		r.lower(id) // the remote broker is not to hear of it
	}
	return from.ack(packet.PUBREC, id, packet.Success)
}

// lower notes that the remote broker knows nothing of the second half of a QoS 2
// message.
func (r *relay) lower(id uint16) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lowered == nil {
		r.lowered = map[uint16]bool{}
	}
	r.lowered[id] = true
}

// isLowered reports whether the link itself answers the second half, and forgets
// it with over.
func (r *relay) isLowered(id uint16, over bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := r.lowered[id]
	if over {
		delete(r.lowered, id)
	}
	return is
}

// answersOut takes the remote broker's answer to a message that went out.
func (r *relay) answersOut(typ packet.Type, body []byte) error {
	var a packet.Ack
	if err := a.Decode(r.there.version, typ, body); err != nil {
		return r.there.wrong(err)
	}
	if a.Reason == packet.QuotaExceeded {
		return fmt.Errorf("the remote broker: %w", errHeldBack)
	}
	switch {
	case typ == packet.PUBCOMP:
		return r.local.ack(typ, a.PacketID, packet.Success)
	case a.Reason.Failed():
		r.link.refused(true, a.Reason)
	default:
		r.link.count(true, outcomeCarried)
	}
	if typ == packet.PUBACK && r.isLowered(a.PacketID, false) {
		return r.local.ack(packet.PUBREC, a.PacketID, packet.Success)
	}
	if typ == packet.PUBREC && a.Reason.Failed() {
		return r.local.ack(typ, a.PacketID, a.Reason) // there will be no second half
	}
	return r.local.ack(typ, a.PacketID, packet.Success)
}

// releasesOut takes the second half of a QoS 2 message to the remote broker.
func (r *relay) releasesOut(body []byte) error {
	var a packet.Ack
	if err := a.Decode(r.local.version, packet.PUBREL, body); err != nil {
		return r.local.wrong(err)
	}
	if r.qos < 2 || r.isLowered(a.PacketID, true) {
		return r.local.ack(packet.PUBCOMP, a.PacketID, packet.Success)
	}
	return r.there.ack(packet.PUBREL, a.PacketID, a.Reason)
}

// answersIn takes the bridge's answer to a message that came in.
func (r *relay) answersIn(typ packet.Type, body []byte) error {
	var a packet.Ack
	if err := a.Decode(r.local.version, typ, body); err != nil {
		return r.local.wrong(err)
	}
	if typ == packet.PUBCOMP {
		return r.there.ack(typ, a.PacketID, a.Reason)
	}
	switch {
	case a.Reason == packet.QuotaExceeded:
		return fmt.Errorf("the bridge: %w", errHeldBack)
	case a.Reason.Failed():
		r.link.refused(false, a.Reason)
	default:
		r.link.count(false, outcomeCarried)
	}
	reason := packet.Success
	if a.Reason.Failed() {
		reason = a.Reason
	}
	return r.there.ack(typ, a.PacketID, reason)
}

// releasesIn takes the second half of a QoS 2 message to the bridge.
func (r *relay) releasesIn(body []byte) error {
	var a packet.Ack
	if err := a.Decode(r.there.version, packet.PUBREL, body); err != nil {
		return r.there.wrong(err)
	}
	return r.local.ack(packet.PUBREL, a.PacketID, a.Reason)
}
