package packet

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// decode parses one whole packet of any type.
func decode(version byte, b []byte) (any, error) {
	h, n, err := ParseHeader(b)
	if err != nil {
		return nil, err
	}
	if n == 0 || len(b)-n != h.Remaining {
		return nil, errors.New("incomplete")
	}
	body := b[n:]
	switch t := h.Type(); t {
	case CONNECT:
		p := new(Connect)
		return p, p.Decode(body)
	case CONNACK:
		p := new(Connack)
		return p, p.Decode(version, body)
	case PUBLISH:
		p := new(Publish)
		return p, p.Decode(version, h, body)
	case PUBACK, PUBREC, PUBREL, PUBCOMP:
		p := new(Ack)
		return p, p.Decode(version, t, body)
	case SUBSCRIBE:
		p := new(Subscribe)
		return p, p.Decode(version, body)
	case SUBACK, UNSUBACK:
		p := new(Suback)
		return p, p.Decode(version, t, body)
	case UNSUBSCRIBE:
		p := new(Unsubscribe)
		return p, p.Decode(version, body)
	case DISCONNECT:
		p := new(Disconnect)
		return p, p.Decode(version, body)
	case AUTH:
		p := new(Auth)
		return p, p.Decode(version, body)
	default:
		return t, CheckEmpty(t, body)
	}
}

func encode(version byte, t Type, p any) []byte {
	switch p := p.(type) {
	case *Connect:
		return p.Append(nil)
	case *Connack:
		return p.Append(nil, version)
	case *Publish:
		return p.Append(nil, version)
	case *Ack:
		return p.Append(nil, version, t)
	case *Subscribe:
		return p.Append(nil, version)
	case *Suback:
		return p.Append(nil, version, t)
	case *Unsubscribe:
		return p.Append(nil, version)
	case *Disconnect:
		return p.Append(nil, version)
	case *Auth:
		return p.Append(nil)
	}
	return []byte{byte(t) << 4, 0}
}

// TestPackets holds whole packets against what they say: each decodes, and
// encodes to the same bytes again.
// [MQTT-2.2.2-1] [MQTT-3.3.2-1]
func TestPackets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		version byte
		hex     string
	}{
		{"connect 3.1.1", 4, "10 0d 0004 4d515454 04 02 003c 0001 61"},
		{"connect 3.1.1 with everything", 4, "10 1b 0004 4d515454 04 ee 003c 0001 61 0001 74 0002 6869 0001 75 0002 7077"},
		{"connect 5", 5, "10 0e 0004 4d515454 05 02 003c 00 0001 61"},
		{"connect 5 properties", 5, "10 2b 0004 4d515454 05 02 003c 1d 1100000e10 15000178 1600027a7a 1700 1901 21000a 2200ff 2700010000 0001 61"},
		{"connect 5 will", 5, "10 22 0004 4d515454 05 36 003c 00 0001 61 0c 180000000a 260001 6b 0001 76 0001 74 0002 6869"},
		{"connect 5 password alone", 5, "10 12 0004 4d515454 05 42 003c 00 0001 61 0002 7077"},
		{"connack", 4, "20 02 01 00"},
		{"connack refused", 4, "20 02 00 05"},
		{"connack 5", 5, "20 11 00 00 0e 11 00000001 210014 2400 2500 2900"},
		{"publish qos 0", 4, "30 05 0001 61 6869"},
		{"publish qos 1", 4, "33 07 0001 61 000a 6869"},
		{"publish qos 2 dup", 4, "3c 07 0001 61 000a 6869"},
		{"publish 5", 5, "30 06 0001 61 00 6869"},
		{"publish 5 properties", 5, "32 25 0001 61 0001 1d 0101 02 0000003c 030001 6a 080001 72 090002 0001 230005 26 0001 6b 0000 6869"},
		{"publish 5 subscription ids", 5, "30 0a 0001 61 05 0b01 0b8002 68"},
		{"puback", 4, "40 02 0001"},
		{"puback 5 reason", 5, "40 03 0001 10"},
		{"puback 5 properties", 5, "40 08 0001 87 04 1f0001 78"},
		{"pubrec 5", 5, "50 03 0001 97"},
		{"pubrel", 5, "62 02 0001"},
		{"pubrel not found", 5, "62 03 0001 92"},
		{"pubcomp", 5, "70 02 0001"},
		{"subscribe", 4, "82 06 0001 0001 61 01"},
		{"subscribe 5", 5, "82 0d 0001 02 0b05 0001 61 2e 0001 62 01"},
		{"suback", 4, "90 05 0001 01 80 02"},
		{"suback 5", 5, "90 05 0001 00 01 87"},
		{"unsubscribe", 4, "a2 08 0001 0001 61 0001 62"},
		{"unsubscribe 5", 5, "a2 06 0001 00 0001 61"},
		{"unsuback", 4, "b0 02 0001"},
		{"unsuback 5", 5, "b0 05 0001 00 00 11"},
		{"pingreq", 4, "c0 00"}, {"pingresp", 4, "d0 00"},
		{"disconnect", 4, "e0 00"},
		{"disconnect 5 reason", 5, "e0 01 04"},
		{"disconnect 5 properties", 5, "e0 07 00 05 1100000000"},
		{"auth", 5, "f0 00"},
		{"auth data", 5, "f0 0a 18 08 150001 78 160001 79"},
	} {
		b := unhex(t, c.hex)
		p, err := decode(c.version, b)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if again := encode(c.version, Type(b[0]>>4), p); !bytes.Equal(again, b) {
			t.Errorf("%s: encoded\n%x, was\n%x", c.name, again, b)
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestViolationsGetTheirReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		version byte
		hex     string
		want    Reason
	}{
		{"reserved type [MQTT-2.1.2]", 5, "00 00", MalformedPacket},
		{"reserved flags [MQTT-2.1.3-1]", 5, "c1 00", MalformedPacket},
		{"subscribe flags [MQTT-3.8.1-1]", 5, "80 06 0001 0001 61 01", MalformedPacket},
		{"unsubscribe flags [MQTT-3.10.1-1]", 5, "a0 05 0001 0001 61", MalformedPacket},
		{"pubrel flags [MQTT-3.6.1-1]", 5, "60 02 0001", MalformedPacket},
		{"QoS 3 [MQTT-3.3.1-4]", 5, "36 06 0001 61 0001 00", MalformedPacket},
		{"DUP with QoS 0 [MQTT-3.3.1-2]", 5, "38 04 0001 61 00", MalformedPacket},
		{"long remaining length [MQTT-1.5.5-1]", 5, "30 ff ff ff ff 01", MalformedPacket},
		{"overlong remaining length [MQTT-1.5.5-1]", 5, "30 80 00", MalformedPacket},
		{"protocol name [MQTT-3.1.2-1]", 5, "10 0d 0004 4d515458 04 02 003c 0001 61", UnsupportedProtocolVersion},
		{"protocol version [MQTT-3.1.2-2]", 5, "10 0d 0004 4d515454 06 02 003c 0001 61", UnsupportedProtocolVersion},
		{"connect flag [MQTT-3.1.2-3]", 5, "10 0d 0004 4d515454 04 03 003c 0001 61", MalformedPacket},
		{"will QoS without will [MQTT-3.1.2-11]", 5, "10 0d 0004 4d515454 04 0a 003c 0001 61", MalformedPacket},
		{"will QoS 3 [MQTT-3.1.2-12]", 5, "10 11 0004 4d515454 04 1e 003c 0001 61 0000 0000", MalformedPacket},
		{"will retain without will [MQTT-3.1.2-13]", 5, "10 0d 0004 4d515454 04 22 003c 0001 61", MalformedPacket},
		{"3.1.1 password alone", 4, "10 10 0004 4d515454 04 42 003c 0001 61 0001 70", MalformedPacket},
		{"no client id [MQTT-3.1.3-3]", 4, "10 0a 0004 4d515454 04 02 003c", MalformedPacket},
		{"left over bytes", 4, "10 0e 0004 4d515454 04 02 003c 0001 61 ff", MalformedPacket},
		{"receive maximum 0", 5, "10 11 0004 4d515454 05 02 003c 03 210000 0001 61", ProtocolError},
		{"maximum packet size 0", 5, "10 13 0004 4d515454 05 02 003c 05 2700000000 0001 61", ProtocolError},
		{"property twice", 5, "10 14 0004 4d515454 05 02 003c 06 210001 210001 0001 61", ProtocolError},
		{"auth data alone", 5, "10 12 0004 4d515454 05 02 003c 04 16000178 0001 61", ProtocolError},
		{"payload format 2", 5, "30 07 0001 61 02 0102 68", ProtocolError},
		{"payload format 2 of a will", 5, "10 18 0004 4d515454 05 06 003c 00 0001 61 02 0102 0001 74 0002 6869", ProtocolError},
		{"request problem 2", 5, "10 10 0004 4d515454 05 02 003c 02 1702 0001 61", ProtocolError},
		{"foreign property", 5, "10 13 0004 4d515454 05 02 003c 05 0200000001 0001 61", MalformedPacket},
		{"unknown property", 5, "30 06 0001 61 02 7f00", MalformedPacket},
		{"property length too long", 5, "30 05 0001 61 09 00", MalformedPacket},
		{"property cut short", 5, "30 06 0001 61 02 0200", MalformedPacket},
		{"topic alias 0 [MQTT-3.3.2-8]", 5, "30 07 0001 61 03 230000", TopicAliasInvalid},
		{"packet id 0 [MQTT-2.2.1-3]", 5, "32 06 0001 61 0000 00", ProtocolError},
		{"topic with NUL [MQTT-1.5.4-2]", 5, "30 04 0001 00 00", MalformedPacket},
		{"topic with surrogate [MQTT-1.5.4-1]", 5, "30 06 0003 eda080 00", MalformedPacket},
		{"topic ill formed [MQTT-1.5.4-1]", 5, "30 04 0001 ff 00", MalformedPacket},
		{"topic cut short", 5, "30 02 0005", MalformedPacket},
		{"user property ill formed [MQTT-1.5.7-1]", 5, "30 0b 0001 61 07 26 0001 ff 0001 61", MalformedPacket},
		{"disconnect flags [MQTT-3.14.1-1]", 5, "e1 00", MalformedPacket},
		{"auth flags [MQTT-3.15.1-1]", 5, "f1 00", MalformedPacket},
		{"subscribe without filter [MQTT-3.8.3-2]", 5, "82 03 0001 00", ProtocolError},
		{"subscribe without options", 5, "82 06 0001 00 0001 61", MalformedPacket},
		{"subscribe QoS 3", 5, "82 07 0001 00 0001 61 03", ProtocolError},
		{"subscribe options [MQTT-3.8.3-5]", 5, "82 07 0001 00 0001 61 41", MalformedPacket},
		{"3.1.1 subscribe options", 4, "82 06 0001 0001 61 04", MalformedPacket},
		{"retain handling 3", 5, "82 07 0001 00 0001 61 30", ProtocolError},
		{"subscription id 0", 5, "82 09 0001 02 0b00 0001 61 01", ProtocolError},
		{"subscription id twice", 5, "82 0b 0001 04 0b010b01 0001 61 01", ProtocolError},
		{"unsubscribe without filter [MQTT-3.10.3-2]", 5, "a2 03 0001 00", ProtocolError},
		{"puback reason", 5, "40 03 0001 01", MalformedPacket},
		{"puback empty", 5, "40 00", MalformedPacket},
		{"disconnect reason", 5, "e0 01 01", MalformedPacket},
		{"disconnect body in 3.1.1", 4, "e0 01 00", MalformedPacket},
		{"ping body", 5, "c0 01 00", MalformedPacket},
		{"auth in 3.1.1", 4, "f0 00", MalformedPacket},
	} {
		_, err := decode(c.version, unhex(t, c.hex))
		var e *Error
		if !errors.As(err, &e) || e.Reason != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestHeaderWaitsForBytes(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{nil, {0x30}, {0x30, 0x80}, {0x30, 0xff, 0xff, 0xff}} {
		if _, n, err := ParseHeader(b); n != 0 || err != nil {
			t.Errorf("%x: %d %v", b, n, err)
		}
	}
	h, n, err := ParseHeader([]byte{0x30, 0xff, 0xff, 0xff, 0x7f})
	if err != nil || n != 5 || h.Remaining != MaxRemaining {
		t.Errorf("%+v %d %v", h, n, err)
	}
}

func TestVarints(t *testing.T) {
	t.Parallel()
	for _, v := range []int{0, 127, 128, 16383, 16384, 2097151, 2097152, MaxRemaining} {
		b := AppendVarint(nil, v)
		if got, n := varint(b); int(got) != v || n != len(b) || n != VarintLen(v) {
			t.Errorf("%d: %x gives %d, %d", v, b, got, n)
		}
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	b := unhex(t, "32 25 0001 61 0001 1d 0101 02 0000003c 030001 6a 080001 72 090002 0001 230005 26 0001 6b 0000 6869")
	var p Publish
	if n := testing.AllocsPerRun(100, func() {
		h, n, _ := ParseHeader(b)
		if err := p.Decode(V5, h, b[n:]); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDecode: no input panics, and what decodes survives an encoding.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"30060001610068690a", "820d0001020b050001612e00016201", "10220004 4d515454 05 36 003c 00 0001 61 0c 180000000a 260001 6b 0001 76 0001 74 0002 6869"} {
		b, _ := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
		f.Add(b, byte(5))
		f.Add(b, byte(4))
	}
	f.Fuzz(func(t *testing.T, b []byte, version byte) {
		version = 4 + version&1
		p, err := decode(version, b)
		if err != nil {
			return
		}
		if c, ok := p.(*Connect); ok {
			version = c.Version
		}
		kind := Type(b[0] >> 4)
		again := encode(version, kind, p)
		q, err := decode(version, again)
		if err != nil {
			t.Fatalf("%x became %x: %v", b, again, err)
		}
		if third := encode(version, kind, q); !bytes.Equal(again, third) {
			t.Fatalf("%x, then %x", again, third)
		}
		if reflect.TypeOf(p) != reflect.TypeOf(q) {
			t.Fatal("type changed")
		}
	})
}

func BenchmarkDecodePublish(b *testing.B) {
	p := Publish{QoS: 1, PacketID: 7, Topic: []byte("aibridge/agent/thermostat-1/request"), Payload: make([]byte, 256)}
	in := p.Append(nil, V5)
	for b.Loop() {
		h, n, _ := ParseHeader(in)
		if err := p.Decode(V5, h, in[n:]); err != nil {
			b.Fatal(err)
		}
	}
}
