package packet

// A Disconnect is a DISCONNECT packet; in 3.1.1 it is empty.
type Disconnect struct {
	Reason     Reason
	Properties Properties
}

// Decode reads the body of a DISCONNECT.
func (p *Disconnect) Decode(version byte, body []byte) error {
	p.Properties.Reset()
	p.Reason = NormalDisconnection
	r := reader{b: body}
	if version == V5 && len(r.b) > 0 {
		p.Reason = Reason(r.byte())
		if !allowedReason(DISCONNECT, p.Reason) {
			r.fail(malformed("reason code does not belong to DISCONNECT"))
		}
		if len(r.b) > 0 {
			p.Properties.decode(&r, allowed[DISCONNECT], DISCONNECT)
		}
	}
	return r.done()
}

// Append appends the packet in its shortest form.
func (p *Disconnect) Append(dst []byte, version byte) []byte {
	return appendReasoned(dst, version, DISCONNECT, p.Reason, &p.Properties)
}

// An Auth is an AUTH packet (MQTT 5).
type Auth struct {
	Reason     Reason
	Properties Properties
}

// Decode reads the body of an AUTH.
func (p *Auth) Decode(version byte, body []byte) error {
	p.Properties.Reset()
	p.Reason = Success
	if version != V5 {
		return malformed("AUTH before MQTT 5")
	}
	r := reader{b: body}
	if len(r.b) > 0 {
		p.Reason = Reason(r.byte())
		if !allowedReason(AUTH, p.Reason) {
			r.fail(malformed("reason code does not belong to AUTH"))
		}
		p.Properties.decode(&r, allowed[AUTH], AUTH)
	}
	return r.done()
}

// Append appends the packet in its shortest form.
func (p *Auth) Append(dst []byte) []byte {
	return appendReasoned(dst, V5, AUTH, p.Reason, &p.Properties)
}

func appendReasoned(dst []byte, version byte, t Type, reason Reason, props *Properties) []byte {
	first := byte(t) << 4
	if version != V5 || reason == Success && props.Empty() {
		return append(dst, first, 0)
	}
	if props.Empty() && t == DISCONNECT {
		return append(dst, first, 1, byte(reason))
	}
	dst = append(AppendVarint(append(dst, first), 1+sizedLen(props.Size())), byte(reason))
	return props.appendSized(dst)
}

// CheckEmpty verifies that a PINGREQ or PINGRESP has no body.
func CheckEmpty(t Type, body []byte) error {
	if len(body) != 0 {
		return malformed(t.String() + " with a body")
	}
	return nil
}
