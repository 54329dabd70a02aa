package packet

// A Subscription is one topic filter of a SUBSCRIBE with its options.
type Subscription struct {
	Filter            []byte
	QoS               byte
	NoLocal           bool // the rest is MQTT 5
	RetainAsPublished bool
	RetainHandling    byte // 0 send, 1 send if new, 2 do not send
}

// A Subscribe is a SUBSCRIBE packet.
type Subscribe struct {
	PacketID   uint16
	Properties Properties
	Filters    []Subscription
}

// Decode reads the body of a SUBSCRIBE. Filters are checked as strings, not
// for the grammar of filters.
func (p *Subscribe) Decode(version byte, body []byte) error {
	p.Properties.Reset()
	p.Filters = p.Filters[:0]
	r := reader{b: body}
	p.PacketID = r.packetID()
	if version == V5 {
		p.Properties.decode(&r, allowed[SUBSCRIBE], SUBSCRIBE)
	}
	for len(r.b) > 0 {
		s := Subscription{Filter: r.string()}
		o := r.byte()
		s.QoS, s.NoLocal, s.RetainAsPublished, s.RetainHandling = o&3, o&4 != 0, o&8 != 0, o>>4&3
		switch {
		case r.err != nil:
		case version != V5 && o > 2:
			r.fail(malformed("reserved bits of the requested QoS")) // [MQTT-3.8.3-4] of 3.1.1
		case o&0xC0 != 0:
			r.fail(malformed("reserved subscription options")) // [MQTT-3.8.3-5]
		case s.QoS == 3:
			r.fail(violation("subscription with QoS 3"))
		case s.RetainHandling == 3:
			r.fail(violation("retain handling 3"))
		}
		p.Filters = append(p.Filters, s)
	}
	if r.err == nil && len(p.Filters) == 0 {
		return violation("SUBSCRIBE without a topic filter") // [MQTT-3.8.3-2]
	}
	return r.done()
}

// Append appends the packet.
func (p *Subscribe) Append(dst []byte, version byte) []byte {
	body := 2
	if version == V5 {
		body += sizedLen(p.Properties.Size())
	}
	for _, s := range p.Filters {
		body += 3 + len(s.Filter)
	}
	dst = appendU16(AppendVarint(append(dst, byte(SUBSCRIBE)<<4|2), body), p.PacketID)
	if version == V5 {
		dst = p.Properties.appendSized(dst)
	}
	for _, s := range p.Filters {
		o := s.QoS
		if version == V5 {
			o |= s.RetainHandling << 4
			if s.NoLocal {
				o |= 4
			}
			if s.RetainAsPublished {
				o |= 8
			}
		}
		dst = append(appendString(dst, s.Filter), o)
	}
	return dst
}

// An Unsubscribe is an UNSUBSCRIBE packet.
type Unsubscribe struct {
	PacketID   uint16
	Properties Properties
	Filters    [][]byte
}

// Decode reads the body of an UNSUBSCRIBE.
func (p *Unsubscribe) Decode(version byte, body []byte) error {
	p.Properties.Reset()
	p.Filters = p.Filters[:0]
	r := reader{b: body}
	p.PacketID = r.packetID()
	if version == V5 {
		p.Properties.decode(&r, allowed[UNSUBSCRIBE], UNSUBSCRIBE)
	}
	for len(r.b) > 0 {
		p.Filters = append(p.Filters, r.string())
	}
	if r.err == nil && len(p.Filters) == 0 {
		return violation("UNSUBSCRIBE without a topic filter") // [MQTT-3.10.3-2]
	}
	return r.done()
}

// Append appends the packet.
func (p *Unsubscribe) Append(dst []byte, version byte) []byte {
	body := 2
	if version == V5 {
		body += sizedLen(p.Properties.Size())
	}
	for _, f := range p.Filters {
		body += 2 + len(f)
	}
	dst = appendU16(AppendVarint(append(dst, byte(UNSUBSCRIBE)<<4|2), body), p.PacketID)
	if version == V5 {
		dst = p.Properties.appendSized(dst)
	}
	for _, f := range p.Filters {
		dst = appendString(dst, f)
	}
	return dst
}

// A Suback is a SUBACK or UNSUBACK packet: one reason for each filter, in
// order. A 3.1.1 UNSUBACK has none.
type Suback struct {
	PacketID   uint16
	Properties Properties
	Reasons    []Reason
}

// Decode reads the body of a packet of type t, SUBACK or UNSUBACK.
func (p *Suback) Decode(version byte, t Type, body []byte) error {
	p.Properties.Reset()
	p.Reasons = p.Reasons[:0]
	r := reader{b: body}
	p.PacketID = r.packetID()
	if version == V5 {
		p.Properties.decode(&r, allowed[t], t)
	}
	if version != V5 && t == UNSUBACK {
		return r.done()
	}
	for _, c := range r.b {
		code := Reason(c)
		if version == V5 && !allowedReason(t, code) || version != V5 && code > 2 && code != 0x80 {
			return malformed("reason code does not belong to " + t.String())
		}
		p.Reasons = append(p.Reasons, code)
	}
	r.b = nil
	if r.err == nil && len(p.Reasons) == 0 {
		return violation(t.String() + " without a reason code")
	}
	return r.done()
}

// Append appends the packet as type t. In 3.1.1 every failure is 0x80.
func (p *Suback) Append(dst []byte, version byte, t Type) []byte {
	body := 2
	if version == V5 {
		body += sizedLen(p.Properties.Size())
	}
	if version == V5 || t == SUBACK {
		body += len(p.Reasons)
	}
	dst = appendU16(AppendVarint(append(dst, byte(t)<<4), body), p.PacketID)
	if version == V5 {
		dst = p.Properties.appendSized(dst)
	} else if t == UNSUBACK {
		return dst
	}
	for _, c := range p.Reasons {
		if version != V5 && c.Failed() {
			c = 0x80
		}
		dst = append(dst, byte(c))
	}
	return dst
}
