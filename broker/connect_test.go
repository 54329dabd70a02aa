package broker

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// [MQTT-3.2.2-2] [MQTT-3.2.0-1] [MQTT-3.2.0-2] [MQTT-3.1.3-6] [MQTT-3.2.2-16]
// [MQTT-3.1.3-7]
func TestConnackAnnouncesLimits(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.MaxPacket = 5000; o.Limits.ReceiveMaximum = 7; o.Limits.TopicAliases = 3 })
		p := n.connect(packet.V5, "", property(packet.SessionExpiry, 0xFFFFFFFF)).connack.Properties
		for id, want := range map[packet.PropertyID]uint32{
			packet.ReceiveMaximum: 7, packet.MaximumPacketSize: 5000, packet.TopicAliasMaximum: 3,
			packet.SessionExpiry: 7 * 24 * 3600,
		} {
			if got := p.Number(id, 0); got != want {
				t.Errorf("property %#x is %d, want %d", id, got, want)
			}
		}
		if len(p.Bytes(packet.AssignedClientID)) == 0 {
			t.Error("no client id was assigned")
		}
		if p.Has(packet.MaximumQoS) || p.Number(packet.RetainAvailable, 1) != 1 {
			t.Error("announces limits it does not have")
		}
	})
}

// [MQTT-3.1.0-1] [MQTT-3.1.4-1] and friends: what happens to connections that
// do not begin as they should.
func TestBadConnectsAreRefused(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Enhanced = map[string]Method{"secret": secret{2}} })
		for name, c := range map[string]struct {
			hex  string
			want string // CONNACK, "" for the mere end
		}{
			"ping first [MQTT-3.1.0-1]":           {"c000", ""},
			"publish first":                       {"30 04 0001 61 00", ""},
			"HTTP":                                {"474554202f20485454502f312e310d0a", ""},
			"other protocol [MQTT-3.1.2-1]":       {"10 0d 0004 4d515458 05 02 003c 0001 61", "20 03 00 84 00"},
			"MQTT 6 [MQTT-3.1.2-2]":               {"10 0d 0004 4d515454 06 02 003c 0001 61", ""},
			"MQTT 3.1":                            {"10 0f 0006 4d5149736470 03 02 003c 0001 61", "20 02 00 01"},
			"MQTT 0":                              {"10 0f 0006 4d5149736470 00 02 003c 0001 61", "20 02 00 01"},
			"maximum packet size 0":               {"10 13 0004 4d515454 05 02 003c 05 2700000000 0001 61", "20 03 00 82"},
			"no room for a CONNACK":               {"10 13 0004 4d515454 05 02 003c 05 2700000002 0001 61", ""},
			"no room for an AUTH":                 {"10 1c 0004 4d515454 05 02 003c 0e 15 0006 736563726574 2700000013 0001 61", "20 03 00 95 00"},
			"room for a refusal":                  {"10 13 0004 4d515454 05 02 003c 05 2700000005 0001 61", "20 03 00 95 00"},
			"no room for a refusal":               {"10 13 0004 4d515454 05 03 003c 05 2700000004 0001 61", ""},
			"reserved flag [MQTT-3.1.2-3]":        {"10 0e 0004 4d515454 05 03 003c 00 0001 61", "20"},
			"3.1.1 reserved flag":                 {"10 0d 0004 4d515454 04 03 003c 0001 61", ""},
			"3.1.1 no id, kept [MQTT-3.1.3-8]":    {"10 0c 0004 4d515454 04 00 003c 0000", "20 02 00 02"},
			"receive maximum 0":                   {"10 11 0004 4d515454 05 02 003c 03 210000 0001 61", "20"},
			"unknown auth method [MQTT-4.12.0-1]": {"10 12 0004 4d515454 05 02 003c 04 15000178 0001 61", "20 03 00 8c"},
			"will topic with wildcard":            {"10 15 0004 4d515454 05 06 003c 00 0001 61 00 0001 23 0001 78", "20"},
			"client id with NUL [MQTT-1.5.4-2]":   {"10 0e 0004 4d515454 05 02 003c 00 0001 00", "20"},
		} {
			p := n.dial(packet.V5)
			p.hex(c.hex)
			var got []byte
			buf := make([]byte, 100)
			_ = p.nc.SetReadDeadline(time.Now().Add(patience))
			for {
				k, err := p.nc.Read(buf)
				got = append(got, buf[:k]...)
				if err != nil {
					if strings.Contains(err.Error(), "timeout") {
						t.Errorf("%s: connection goes on", name)
					}
					break
				}
			}
			_ = p.nc.Close()
			want := strings.ReplaceAll(c.want, " ", "")
			hexGot := strings.ToLower(hexOf(got))
			if want == "20" {
				if len(got) < 4 || got[0] != 0x20 || got[3] < 0x80 {
					t.Errorf("%s: answered %s", name, hexGot)
				}
			} else if strings.HasPrefix(want, "200300") {
				if len(got) < 4 || got[0] != 0x20 || hexGot[6:8] != want[6:8] {
					t.Errorf("%s: answered %s, want %s", name, hexGot, want)
				}
			} else if name != "MQTT 6 [MQTT-3.1.2-2]" && hexGot != want {
				t.Errorf("%s: answered %s, want %s", name, hexGot, want)
			}
		}
		if len(n.seen.all()) != 0 {
			t.Errorf("presence was told %q", n.seen.all())
		}
	})
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

// [MQTT-3.1.0-2]
func TestSecondConnectEndsTheConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		p := n.connect(packet.V5, "a")
		p.send((&packet.Connect{Version: 5, ClientID: []byte("a")}).Append(nil))
		if r := p.ended(); r != packet.ProtocolError {
			t.Errorf("reason %v", r)
		}
	})
}

// [MQTT-4.13.1-1] [MQTT-4.13.2-1] [MQTT-3.14.0-1]
func TestViolationsEndTheConnectionWithTheirReason(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.MaxPacket = 1000; o.Limits.TopicAliases = 3 })
		for name, c := range map[string]struct {
			hex  string
			want packet.Reason
		}{
			"reserved type":                                  {"00 00", packet.MalformedPacket},
			"CONNACK from a client":                          {"20 03 00 00 00", packet.ProtocolError},
			"SUBACK from a client":                           {"90 04 0001 00 00", packet.ProtocolError},
			"PINGRESP from a client":                         {"d0 00", packet.ProtocolError},
			"wildcard in topic [MQTT-3.3.2-2]":               {"30 06 0003 612f23 00", packet.TopicNameInvalid},
			"no topic":                                       {"30 03 0000 00", packet.ProtocolError},
			"subscription id [MQTT-3.3.4-6]":                 {"30 06 0001 61 02 0b01", packet.ProtocolError},
			"alias 0 [MQTT-3.3.2-8]":                         {"30 07 0001 61 03 230000", packet.TopicAliasInvalid},
			"alias above the maximum [MQTT-3.3.2-9]":         {"30 07 0001 61 03 230004", packet.TopicAliasInvalid},
			"unknown alias":                                  {"30 06 0000 03 230002", packet.ProtocolError},
			"wildcard in response topic [MQTT-3.3.2-14]":     {"30 08 0001 61 04 08000123", packet.ProtocolError},
			"packet too large [MQTT-3.2.2-15]":               {"30 ff 7f", packet.PacketTooLarge},
			"no local on shared subscription [MQTT-3.8.3-4]": {"82 10 0001 00 000a 2473686172652f672f61 04", packet.ProtocolError},
			"subscribe without filter [MQTT-3.8.3-2]":        {"82 03 0001 00", packet.ProtocolError},
			"DISCONNECT raises session expiry":               {"e0 07 00 05 1100000001", packet.ProtocolError},
			"PINGREQ with a body":                            {"c0 01 00", packet.MalformedPacket},
			"AUTH without a method":                          {"f0 00", packet.ProtocolError},
			"endless length":                                 {"30 ff ff ff ff", packet.MalformedPacket},
		} {
			p := n.connect(packet.V5, "a")
			p.hex(c.hex)
			var d packet.Disconnect // and nothing before it
			if err := d.Decode(packet.V5, p.expect(packet.DISCONNECT)); err != nil || d.Reason != c.want {
				t.Errorf("%s: %v, want %v (%v)", name, d.Reason, c.want, err)
			}
			p.ended()
			n.gone("a")
			_ = p.nc.Close()
		}
	})
}

// [MQTT-3.1.2-22] [MQTT-3.1.2-20]
func TestKeepAliveIsEnforced(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		start := time.Now()
		p := n.connect(packet.V5, "a", func(c *packet.Connect) { c.KeepAlive = 1 })
		if r := p.ended(); r != packet.KeepAliveTimeout {
			t.Errorf("reason %v", r)
		}
		if d := time.Since(start); d < 1400*time.Millisecond {
			t.Errorf("after %v", d)
		}
	})
}

// A packet that comes byte by byte does not keep its client alive, as one does
// that comes slowly, but comes [MQTT-3.1.2-22].
func TestTricklingIsNoSignOfLife(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		c := clock.New()
		n := newNode(t, readers, ticking(c))
		alive := func(c *packet.Connect) { c.KeepAlive = 600 }
		trickle, slow := n.connect(packet.V5, "trickle", alive), n.connect(packet.V5, "slow", alive)
		large := text("x", strings.Repeat("x", 20_000))
		bytes := large.Append(nil, 5)
		received := func() uint64 { return n.stats.door("mqtt").bytesIn.Load() }
		for i := range 4 {
			before := received()
			trickle.send(bytes[i : i+1])
			slow.send(bytes[i*1500 : (i+1)*1500])
			eventually.Holds(t, "it has come", func() bool { return received() == before+1501 })
			c.Advance(4 * time.Minute)
			n.looked()
		}
		if n.has("trickle") || !n.has("slow") {
			t.Errorf("who trickles is connected: %v; who is slow: %v", n.has("trickle"), n.has("slow"))
		}
		slow.send(bytes[6000:])
		slow.quiet()
	})
}

// Mosquitto's bridges ask for a level of the protocol with a bit set, and come
// back without it when they are refused in words of that level.
func TestABridgeOfMosquittoIsRefusedInItsOwnWords(t *testing.T) {
	n := newNode(t, 1)
	p := n.dial(4)
	p.hex("10 0d 0004 4d515454 84 02 003c 0001 61")
	if h, body := p.packet(); h.Type() != packet.CONNACK || !bytes.Equal(body, []byte{0, 1}) {
		t.Errorf("answered %v %x, want return code 1 of 3.1.1", h.Type(), body)
	}
	p.ended()
	p = n.dial(5)
	p.hex("10 0e 0004 4d515454 06 02 003c 00 0001 61")
	if h, body := p.packet(); h.Type() != packet.CONNACK || len(body) < 3 || body[1] != 0x84 {
		t.Errorf("a version to come is answered %v %x, want reason 0x84 of MQTT 5", h.Type(), body)
	}
}

// [MQTT-3.1.2-21]
// [MQTT-3.2.2-22]
func TestServerKeepAliveIsTold(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.Limits.KeepAlive = time.Minute })
	for asked, want := range map[uint16]uint32{0: 60, 600: 60, 30: 0} {
		p := n.connect(packet.V5, "", func(c *packet.Connect) { c.KeepAlive = asked })
		if got := p.connack.Properties.Number(packet.ServerKeepAlive, 0); got != want {
			t.Errorf("asked %d, told %d, want %d", asked, got, want)
		}
	}
}

func TestConnectMustComeInTime(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Limits.ConnectTimeout = 50 * time.Millisecond })
		p := n.dial(packet.V5)
		_, _ = p.nc.Write([]byte{byte(packet.CONNECT) << 4, 0x20, 0x00}) // fails if shaking hands took all of the time
		p.ended()
	})
}

// Packets may follow CONNECT at once [MQTT-3.1.4-5].
// [MQTT-3.12.4-1]
func TestPacketsSentWithConnectAreHandled(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		p := n.dial(packet.V5)
		b := (&packet.Connect{Version: 5, CleanStart: true, ClientID: []byte("a")}).Append(nil)
		b = (&packet.Subscribe{PacketID: 1, Filters: []packet.Subscription{{Filter: []byte("x")}}}).Append(b, 5)
		m := text("x", "hello")
		b = m.Append(b, 5)
		for i := range b { // one byte at a time
			p.send(b[i : i+1])
		}
		p.expect(packet.CONNACK)
		p.expect(packet.SUBACK)
		p.take("hello")
		p.quiet()
	})
}

type secret struct{ steps int }

func (s secret) Start(context.Context, Credentials) (Exchange, error) {
	return &secretExchange{left: s.steps}, nil
}

type secretExchange struct{ left int }

func (e *secretExchange) Next(_ context.Context, data []byte) ([]byte, *Identity, error) {
	if string(data) == "wrong" {
		return nil, nil, protocol.Errorf(protocol.NotAuthenticated, "no")
	}
	if e.left--; e.left > 0 {
		return []byte("more"), nil, nil
	}
	if string(data) == "boom" {
		return nil, nil, errors.New("store is away")
	}
	return []byte("welcome"), &Identity{&protocol.Principal{ID: "user:secret"}}, nil
}

// [MQTT-4.12.0-2] [MQTT-4.12.0-3] [MQTT-4.12.0-5] [MQTT-4.12.1-1] [MQTT-4.12.1-2]
func TestEnhancedAuthentication(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Enhanced = map[string]Method{"secret": secret{3}} })
		auth := func(p *peer, reason packet.Reason, method, data string) {
			a := packet.Auth{Reason: reason}
			a.Properties.SetBytes(packet.AuthMethod, []byte(method))
			a.Properties.SetBytes(packet.AuthData, []byte(data))
			p.send(a.Append(nil))
		}
		begin := func() *peer {
			p := n.dial(packet.V5)
			c := packet.Connect{Version: 5, CleanStart: true, ClientID: []byte("a")}
			c.Properties.SetBytes(packet.AuthMethod, []byte("secret"))
			p.send(c.Append(nil))
			p.expect(packet.AUTH)
			return p
		}
		p := begin()
		auth(p, packet.ContinueAuthentication, "secret", "1")
		p.expect(packet.AUTH)
		auth(p, packet.ContinueAuthentication, "secret", "2")
		var ack packet.Connack
		if err := ack.Decode(5, p.expect(packet.CONNACK)); err != nil || ack.Reason != 0 ||
			string(ack.Properties.Bytes(packet.AuthData)) != "welcome" || string(ack.Properties.Bytes(packet.AuthMethod)) != "secret" {
			t.Fatalf("CONNACK %+v %v", ack, err)
		}
		for i := range 3 { // again, while connected
			reason := packet.ContinueAuthentication
			if i == 0 {
				reason = packet.Reauthenticate
			}
			auth(p, reason, "secret", "x")
			var a packet.Auth
			if err := a.Decode(5, p.expect(packet.AUTH)); err != nil || (a.Reason == packet.Success) != (i == 2) {
				t.Fatalf("step %d: %+v %v", i, a, err)
			}
		}
		p.quiet()
		auth(p, packet.Reauthenticate, "other", "x")
		if r := p.ended(); r != packet.ProtocolError {
			t.Errorf("changed method: %v", r)
		}
		p = begin()
		auth(p, packet.ContinueAuthentication, "secret", "wrong")
		if err := ack.Decode(5, p.expect(packet.CONNACK)); err != nil || ack.Reason != packet.BadUserNameOrPassword {
			t.Errorf("wrong: %+v %v", ack, err)
		}
		p.ended()
	})
}

// [MQTT-3.1.2-28]
func TestResponseInformationIsGivenOnRequest(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.ResponseInfo = func(c *Client) string { return "client/" + c.ID } })
	p := n.connect(packet.V5, "a", property(packet.RequestResponseInfo, 1))
	if got := string(p.connack.Properties.Bytes(packet.ResponseInfo)); got != "client/a" {
		t.Errorf("told %q", got)
	}
	if n.connect(packet.V5, "b").connack.Properties.Has(packet.ResponseInfo) {
		t.Error("told without being asked")
	}
}

func TestClientIDsOfTheFieldAreAccepted(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		for _, id := range []string{"mosqsub/1234-host", "a+b", "#1", "$device", "Fühler 7", strings.Repeat("x", 256)} {
			n.connect(packet.V5, id)
		}
	})
}
