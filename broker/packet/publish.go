package packet

// A Publish is a PUBLISH packet.
type Publish struct {
	Dup        bool
	QoS        byte
	Retain     bool
	Topic      []byte
	PacketID   uint16 // 0 with QoS 0
	Properties Properties
	RawProps   []byte // the properties as they came, without their length
	Payload    []byte
}

// Decode reads the body of a PUBLISH whose fixed header is h. The topic is
// checked as a string, not for wildcards.
func (p *Publish) Decode(version byte, h Header, body []byte) error {
	p.Dup = h.First&0x08 != 0
	p.QoS = h.First >> 1 & 3
	p.Retain = h.First&0x01 != 0
	p.PacketID = 0
	p.RawProps = nil
	p.Properties.Reset()
	r := reader{b: body}
	p.Topic = r.string() // [MQTT-3.3.2-1]
	if p.QoS > 0 {
		p.PacketID = r.packetID()
	}
	if version == V5 {
		if len(r.b) > 0 && r.b[0] == 0 { // no properties, nearly always
			r.b = r.b[1:]
		} else {
			before := r.b
			p.Properties.decode(&r, allowed[PUBLISH], PUBLISH)
			if r.err == nil {
				n, size := varint(before)
				p.RawProps = before[size : size+int(n)]
			}
		}
	}
	if r.err != nil {
		return r.err
	}
	p.Payload = r.b
	return nil
}

// Append appends the packet.
func (p *Publish) Append(dst []byte, version byte) []byte {
	first := byte(PUBLISH)<<4 | p.QoS<<1
	if p.Dup {
		first |= 0x08
	}
	if p.Retain {
		first |= 0x01
	}
	body := 2 + len(p.Topic) + len(p.Payload)
	if p.QoS > 0 {
		body += 2
	}
	if version == V5 {
		body += sizedLen(p.Properties.Size())
	}
	dst = appendString(AppendVarint(append(dst, first), body), p.Topic)
	if p.QoS > 0 {
		dst = appendU16(dst, p.PacketID)
	}
	if version == V5 {
		dst = p.Properties.appendSized(dst)
	}
	return append(dst, p.Payload...)
}

// An Ack is a PUBACK, PUBREC, PUBREL or PUBCOMP.
type Ack struct {
	PacketID   uint16
	Reason     Reason
	Properties Properties
}

// Decode reads the body of an acknowledgement of the given type. Reason code
// and properties may be left out in MQTT 5.
func (p *Ack) Decode(version byte, t Type, body []byte) error {
	p.Properties.Reset()
	p.Reason = Success
	r := reader{b: body}
	p.PacketID = r.packetID()
	if version == V5 && len(r.b) > 0 {
		p.Reason = Reason(r.byte())
		if !allowedReason(t, p.Reason) {
			r.fail(malformed("reason code does not belong to " + t.String()))
		}
		if len(r.b) > 0 {
			p.Properties.decode(&r, allowed[t], t)
		}
	}
	return r.done()
}

// Append appends the packet in its shortest form.
func (p *Ack) Append(dst []byte, version byte, t Type) []byte {
	first := byte(t) << 4
	if t == PUBREL {
		first |= 2
	}
	if version != V5 || p.Reason == Success && p.Properties.Empty() {
		return appendU16(append(dst, first, 2), p.PacketID)
	}
	if p.Properties.Empty() {
		return append(appendU16(append(dst, first, 3), p.PacketID), byte(p.Reason))
	}
	dst = AppendVarint(append(dst, first), 3+sizedLen(p.Properties.Size()))
	return p.Properties.appendSized(append(appendU16(dst, p.PacketID), byte(p.Reason)))
}

// AppendAck appends an acknowledgement that carries no more than a reason.
func AppendAck(dst []byte, version byte, t Type, id uint16, reason Reason) []byte {
	first := byte(t) << 4
	if t == PUBREL {
		first |= 2
	}
	if version == V5 && reason != Success {
		return append(dst, first, 3, byte(id>>8), byte(id), byte(reason))
	}
	return append(dst, first, 2, byte(id>>8), byte(id))
}
