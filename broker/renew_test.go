package broker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// passes lets in whoever names a role and how long it lasts, "role 1h".
type passes struct{}

func (passes) Start(context.Context, Credentials) (Exchange, error) { return passes{}, nil }

func (passes) Next(_ context.Context, data []byte) ([]byte, *Identity, error) {
	role, lifetime, ok := strings.Cut(string(data), " ")
	d, err := time.ParseDuration(lifetime)
	if !ok || err != nil {
		return nil, nil, protocol.Errorf(protocol.CredentialInvalid, "no")
	}
	return nil, &Identity{&protocol.Principal{ID: "user:ann", Roles: []string{role}, Expires: time.Now().Add(d)}}, nil
}

// listeners may hear everything as long as they have the role.
type listeners struct{ permissions }

func (listeners) MaySubscribe(c *Client, _ string) Verdict {
	if c.Principal().HasRole("listener") {
		return Verdict{}
	}
	return NotAuthorized("not a listener")
}

func pass(data string) func(*packet.Connect) {
	return func(c *packet.Connect) {
		c.Properties.SetBytes(packet.AuthMethod, []byte("pass"))
		c.Properties.SetBytes(packet.AuthData, []byte(data))
	}
}

func (p *peer) authenticate(data string) {
	p.t.Helper()
	a := packet.Auth{Reason: packet.Reauthenticate}
	a.Properties.SetBytes(packet.AuthMethod, []byte("pass"))
	a.Properties.SetBytes(packet.AuthData, []byte(data))
	p.send(a.Append(nil))
}

func TestAnExpiredCredentialEndsTheConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Enhanced = map[string]Method{"pass": passes{}} })
		p := n.connect(packet.V5, "a", pass("listener 1ns"))
		if r := p.ended(); r != packet.NotAuthorized {
			t.Errorf("told %v", r)
		}
		eventually.Holds(t, "the bridge knows", func() bool {
			return slices.Contains(n.seen.all(), "a disconnected: credential expired")
		})
	})
}

func TestARenewedCredentialCountsFromThenOn(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		var renewed recorder
		n := newNode(t, readers, func(o *Options) {
			o.Enhanced = map[string]Method{"pass": passes{}}
			o.Permissions = listeners{}
			o.Renewed = func(c *Client, _ *protocol.Principal) { renewed.add("%s", c.Principal().Roles) }
		})
		p := n.connect(packet.V5, "a", pass("listener 1h"))
		p.subscribe("x", 0)
		p.authenticate("speaker 1h")
		p.expect(packet.AUTH)
		if got := renewed.all(); !slices.Equal(got, []string{"[speaker]"}) {
			t.Errorf("told %q", got)
		}
		if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "x", Payload: []byte("secret")}); err != nil {
			t.Fatal(err)
		}
		p.quiet() // hears nothing
		if r := p.trySubscribe("y", 0); r[0] != packet.NotAuthorized {
			t.Errorf("subscribes with a role that is gone: %v", r)
		}
		if !slices.Contains(n.seen.all(), "a unsubscribed x") {
			t.Errorf("presence was told %q", n.seen.all())
		}
		p.authenticate("listener 1ns")
		p.expect(packet.AUTH)
		if r := p.ended(); r != packet.NotAuthorized {
			t.Errorf("the shorter lifetime does not count: %v", r)
		}
	})
}

func TestAFailedRenewalEndsTheConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) { o.Enhanced = map[string]Method{"pass": passes{}} })
		p := n.connect(packet.V5, "a", pass("listener 1h"))
		p.authenticate("nonsense")
		if r := p.ended(); r != packet.NotAuthorized {
			t.Errorf("told %v", r)
		}
	})
}

func TestAKeptSessionHearsOnlyWhatItsClientStillMay(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, func(o *Options) {
			o.Enhanced = map[string]Method{"pass": passes{}}
			o.Permissions = listeners{}
		})
		p := n.connect(packet.V5, "a", kept, pass("listener 1h"))
		p.subscribe("x", 1)
		_ = p.nc.Close()
		eventually.Holds(t, "a is gone", func() bool { return slices.Contains(n.seen.all(), "a disconnected: connection lost") })
		p = n.connect(packet.V5, "a", kept, pass("speaker 1h"))
		if !p.connack.SessionPresent {
			t.Fatal("the session is gone")
		}
		if i, _ := n.Session(home("a")); len(i.Subscriptions) != 0 {
			t.Errorf("still subscribed to %v", i.Subscriptions)
		}
	})
}
