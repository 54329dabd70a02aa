package packet

// A Connect is a CONNECT packet. Will is meaningful only with HasWill, and so
// on for the other Has fields.
type Connect struct {
	Name        []byte // "MQTT"
	Version     byte
	CleanStart  bool // Clean Session in 3.1.1
	KeepAlive   uint16
	Properties  Properties
	ClientID    []byte
	HasWill     bool
	Will        Will
	HasUsername bool
	Username    []byte
	HasPassword bool
	Password    []byte
}

// A Will is the message the server publishes for a client that is gone.
type Will struct {
	QoS        byte
	Retain     bool
	Topic      []byte
	Payload    []byte
	Properties Properties
}

// Decode reads the body of a CONNECT. With an unknown protocol name or level
// it fails with [UnsupportedProtocolVersion] and Name and Version set as far
// as they were read.
func (p *Connect) Decode(body []byte) error {
	*p = Connect{Properties: p.Properties, Will: Will{Properties: p.Will.Properties}}
	p.Properties.Reset()
	p.Will.Properties.Reset()
	r := reader{b: body}
	p.Name = r.string()
	p.Version = r.byte()
	if r.err != nil {
		return r.err
	}
	if string(p.Name) != "MQTT" || p.Version != V311 && p.Version != V5 {
		return &Error{UnsupportedProtocolVersion, "protocol is neither MQTT 3.1.1 nor 5.0"} // [MQTT-3.1.2-1] [MQTT-3.1.2-2]
	}
	flags := r.byte()
	p.KeepAlive = r.u16()
	if p.Version == V5 {
		p.Properties.decode(&r, allowed[CONNECT], CONNECT)
		if p.Properties.Has(AuthData) && !p.Properties.Has(AuthMethod) {
			r.fail(violation("authentication data without method"))
		}
	}
	p.checkFlags(&r, flags)
	p.ClientID = r.string() // [MQTT-3.1.3-3]
	if p.HasWill {
		if p.Version == V5 {
			p.Will.Properties.decode(&r, allowedWill, CONNECT)
		}
		p.Will.Topic = r.string()
		p.Will.Payload = r.binary()
	}
	if p.HasUsername {
		p.Username = r.string()
	}
	if p.HasPassword {
		p.Password = r.binary()
	}
	return r.done()
}

func (p *Connect) checkFlags(r *reader, flags byte) {
	p.CleanStart = flags&0x02 != 0
	p.HasWill = flags&0x04 != 0
	p.Will.QoS = flags >> 3 & 3
	p.Will.Retain = flags&0x20 != 0
	p.HasPassword = flags&0x40 != 0
	p.HasUsername = flags&0x80 != 0
	switch {
	case r.err != nil:
	case flags&1 != 0:
		r.fail(malformed("reserved connect flag")) // [MQTT-3.1.2-3]
	case p.Will.QoS == 3:
		r.fail(malformed("will QoS 3")) // [MQTT-3.1.2-12]
	case !p.HasWill && (p.Will.QoS != 0 || p.Will.Retain):
		r.fail(malformed("will flags without a will")) // [MQTT-3.1.2-11] [MQTT-3.1.2-13]
	case p.Version == V311 && p.HasPassword && !p.HasUsername:
		r.fail(malformed("password without user name")) // [MQTT-3.1.2-22] of 3.1.1
	}
}

// Append appends the packet.
func (p *Connect) Append(dst []byte) []byte {
	body := 2 + len("MQTT") + 1 + 1 + 2 + 2 + len(p.ClientID)
	var flags byte
	if p.CleanStart {
		flags |= 0x02
	}
	if p.Version == V5 {
		body += sizedLen(p.Properties.Size())
	}
	if p.HasWill {
		flags |= 0x04 | p.Will.QoS<<3
		if p.Will.Retain {
			flags |= 0x20
		}
		if p.Version == V5 {
			body += sizedLen(p.Will.Properties.Size())
		}
		body += 4 + len(p.Will.Topic) + len(p.Will.Payload)
	}
	if p.HasUsername {
		flags |= 0x80
		body += 2 + len(p.Username)
	}
	if p.HasPassword {
		flags |= 0x40
		body += 2 + len(p.Password)
	}
	dst = AppendVarint(append(dst, byte(CONNECT)<<4), body)
	dst = append(appendString(dst, "MQTT"), p.Version, flags)
	dst = appendU16(dst, p.KeepAlive)
	if p.Version == V5 {
		dst = p.Properties.appendSized(dst)
	}
	dst = appendString(dst, p.ClientID)
	if p.HasWill {
		if p.Version == V5 {
			dst = p.Will.Properties.appendSized(dst)
		}
		dst = appendString(appendString(dst, p.Will.Topic), p.Will.Payload)
	}
	if p.HasUsername {
		dst = appendString(dst, p.Username)
	}
	if p.HasPassword {
		dst = appendString(dst, p.Password)
	}
	return dst
}

func sizedLen(n int) int { return VarintLen(n) + n }

func (p *Properties) appendSized(dst []byte) []byte {
	return p.Append(AppendVarint(dst, p.Size()))
}

// A Connack is a CONNACK packet. For 3.1.1 Reason is one of its return codes
// 0 to 5, see [ReturnCode].
type Connack struct {
	SessionPresent bool
	Reason         Reason
	Properties     Properties
}

// Decode reads the body of a CONNACK.
func (p *Connack) Decode(version byte, body []byte) error {
	p.Properties.Reset()
	r := reader{b: body}
	flags := r.byte()
	if flags > 1 {
		r.fail(malformed("reserved connack flags")) // [MQTT-3.2.2-1]
	}
	p.SessionPresent = flags&1 != 0
	p.Reason = Reason(r.byte())
	if version == V5 {
		if !allowedReason(CONNACK, p.Reason) {
			r.fail(malformed("reason code does not belong to CONNACK"))
		}
		p.Properties.decode(&r, allowed[CONNACK], CONNACK)
	} else if p.Reason > 5 {
		r.fail(malformed("unknown return code"))
	}
	return r.done()
}

// Append appends the packet.
func (p *Connack) Append(dst []byte, version byte) []byte {
	body := 2
	if version == V5 {
		body += sizedLen(p.Properties.Size())
	}
	var flags byte
	if p.SessionPresent {
		flags = 1
	}
	dst = append(AppendVarint(append(dst, byte(CONNACK)<<4), body), flags, byte(p.Reason))
	if version == V5 {
		dst = p.Properties.appendSized(dst)
	}
	return dst
}

// ReturnCode is the 3.1.1 CONNACK return code for an MQTT 5 reason.
func ReturnCode(r Reason) Reason {
	switch r {
	case Success:
		return 0
	case UnsupportedProtocolVersion:
		return 1
	case ClientIdentifierNotValid:
		return 2
	case BadUserNameOrPassword:
		return 4
	case NotAuthorized, Banned, BadAuthenticationMethod:
		return 5
	}
	return 3 // server unavailable
}
