package broker

import (
	"errors"

	"github.com/aibridge/aibridge/broker/packet"
)

var errNotConnect = &packet.Error{Reason: packet.ProtocolError, Text: "first packet is not CONNECT"} // [MQTT-3.1.0-1]

// errStop ends a connection that has said goodbye.
var errStop = errors.New("client disconnected")

// errDetached ends the reading of a connection whose session has been taken from
// it. Whoever took it tells the client why, and closes.
var errDetached = errors.New("session taken over")

// packet handles one packet. whole is all of it, body without the header.
func (t *turn) packet(c *conn, h packet.Header, whole, body []byte) error {
	t.packetAt = 0
	switch c.phase.Load() {
	case phaseNew:
		if h.Type() != packet.CONNECT {
			return errNotConnect
		}
		return t.connect(c, body)
	case phaseAuth:
		if h.Type() == packet.AUTH {
			return t.auth(c, body)
		}
		if h.Type() == packet.DISCONNECT {
			return errStop
		}
		return &packet.Error{Reason: packet.ProtocolError, Text: "packet before authentication is complete"}
	}
	c.noteIn(h, len(whole), body)
	if c.phase.Load() == phaseLeaving && asksForMore(h.Type()) {
		return nil
	}
	switch typ := h.Type(); typ {
	case packet.PUBLISH:
		return t.publish(c, h, whole, body)
	case packet.PUBACK, packet.PUBREC, packet.PUBREL, packet.PUBCOMP:
		if err := t.ack.Decode(c.version, typ, body); err != nil {
			return err
		}
		return t.acknowledged(c, typ)
	case packet.SUBSCRIBE:
		if err := t.sub.Decode(c.version, body); err != nil {
			return err
		}
		return t.subscribe(c)
	case packet.UNSUBSCRIBE:
		if err := t.unsub.Decode(c.version, body); err != nil {
			return err
		}
		return t.unsubscribe(c)
	case packet.PINGREQ:
		if err := packet.CheckEmpty(typ, body); err != nil {
			return err
		}
		t.acks = append(t.acks, byte(packet.PINGRESP)<<4, 0) // [MQTT-3.12.4-1]
		return nil
	case packet.DISCONNECT:
		return t.disconnect(c, body)
	case packet.AUTH:
		return t.auth(c, body)
	case packet.CONNECT:
		return &packet.Error{Reason: packet.ProtocolError, Text: "second CONNECT"} // [MQTT-3.1.0-2]
	default:
		return &packet.Error{Reason: packet.ProtocolError, Text: typ.String() + " from a client"}
	}
}

// disconnect handles DISCONNECT. [MQTT-3.14.4-3] With reason 0x00 the will is
// forgotten.
func (t *turn) disconnect(c *conn, body []byte) error {
	var d packet.Disconnect
	if err := d.Decode(c.version, body); err != nil {
		return err
	}
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn.Load() != c {
		return errStop
	}
	if d.Properties.Has(packet.ServerReference) {
		return &packet.Error{Reason: packet.ProtocolError, Text: "server reference from a client"}
	}
	if d.Properties.Has(packet.SessionExpiry) {
		wanted := d.Properties.Number(packet.SessionExpiry, 0)
		if s.expiry == 0 && wanted != 0 { // [MQTT-3.14.2-2] is the server's; this is §3.1.2.11.2
			return &packet.Error{Reason: packet.ProtocolError, Text: "session expiry on DISCONNECT of a session that ends with its connection"}
		}
		s.expiry = t.b.allowedExpiry(wanted)
	}
	why := "client disconnected"
	if d.Reason == packet.NormalDisconnection {
		t.forgetWill(s.will)
		s.will = nil
	} else {
		why = "client disconnected: " + d.Reason.String()
		if text := d.Properties.Bytes(packet.ReasonString); len(text) > 0 {
			why += ": " + string(text)
		}
	}
	t.detachLocked(s, why)
	return errStop
}

// fail ends the connection because of what the client sent, or because it
// is done.
func (t *turn) fail(c *conn, err error) {
	var violation *packet.Error
	switch {
	case err == errStop:
		t.leave(c, "client disconnected")
		c.abort()
		return
	case err == errDetached:
		c.phase.Store(phaseEnded)
		return
	case !errors.As(err, &violation):
		violation = &packet.Error{Reason: packet.UnspecifiedError}
	}
	t.b.log.Debug("connection ended on bad packet", "listener", c.door.name, "remote", c.remote, "client", c.id(), "reason", violation.Reason.String(), "error", violation.Text)
	if c.session == nil && c.phase.Load() != phaseEnded {
		t.refuse(c, violation)
		return
	}
	t.stop(c, violation.Reason, violation.Text, violation.Error())
}

// stop detaches the client, tells it why and closes the connection.
func (t *turn) stop(c *conn, reason packet.Reason, text, why string) {
	if left := t.leave(c, why); left {
		t.b.ended(c.client, reason, why)
	}
	t.b.stats.disconnected(reason)
	c.end(reason, text, t.now)
}

// leave detaches the session from the connection, and reports whether it was
// attached.
func (t *turn) leave(c *conn, why string) bool {
	c.mu.Lock() // whoever ends connections may come while one is being made
	s := c.session
	c.mu.Unlock()
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn.Load() != c {
		return false
	}
	t.detachLocked(s, why)
	return true
}

// lost ends a connection whose peer is gone.
func (t *turn) lost(c *conn) {
	t.leave(c, "connection lost")
	c.abort()
}

func (c *conn) id() string {
	if c.client == nil {
		return ""
	}
	return c.client.ID
}
