package broker

import (
	"crypto/x509"
	"net"
	"sync/atomic"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A Client is one connected MQTT client. It is comparable by pointer, as a
// reconnect makes a new one, and immutable but for its principal, which it may
// renew.
type Client struct {
	ID       string
	Remote   net.Addr
	Listener string // name of the listener it came in by
	Version  byte   // 4 for MQTT 3.1.1, 5 for MQTT 5

	// Memory is a place for the handlers of the client's publications.
	Memory atomic.Value
	// Presence is whatever those who let clients in keep of one while it is connected.
	Presence atomic.Value

	principal atomic.Pointer[protocol.Principal]
}

// NewClient returns a client of that principal.
func NewClient(id string, who *protocol.Principal) *Client {
	c := &Client{ID: id}
	c.principal.Store(who)
	return c
}

// Session names the client's session.
func (c *Client) Session() SessionID { return SessionID{c.Principal().Home(), c.ID} }

// Principal is the principal of the client's last authentication. By authenticating
// again (MQTT 5 §4.12.1) it gets another, of the same identity, with the roles
// and the expiry of the new credential.
func (c *Client) Principal() *protocol.Principal { return c.principal.Load() }

// A Publication is a message a client published. It, its payload and its
// properties are valid only until the handler returns.
type Publication struct {
	Client *Client
	protocol.Message

	// HearsMore is set by a handler if the client is likely to be sent something
	// at once, with which the acknowledgement of a QoS 1 publication may leave.
	HearsMore bool

	At int64 // it was read, steady

	// Absent says that the client is not the one that sends it now, and may be gone: it
	// is a Will, or is published in the client's name.
	Absent bool

	turn  *turn // while handlers see it
	taken bool
}

// Take makes a publication its handler's own: it is neither retained nor
// delivered. The acknowledgement of QoS 1 and 2 waits until settle is called,
// once and from anywhere, and tells its verdict. A broker that stores nothing
// does not wait.
func (p *Publication) Take() (settle func(Verdict)) {
	p.taken = true
	return p.settler()
}

// settler has the acknowledgement wait for its verdict.
func (p *Publication) settler() (settle func(Verdict)) {
	r := p.receipt()
	if r == nil {
		return func(Verdict) {}
	}
	return func(v Verdict) {
		if !v.Allowed() {
			r.unstored.Store(v.Unstored)
			r.verdict.Store(uint32(v.Reason))
		}
		r.Answer(Taken)
		r.b.AnswerReceipts()
	}
}

// receipt has the acknowledgement wait, and is nil if there is none that waits for
// anything.
func (p *Publication) receipt() *Receipt {
	if b := p.turn.b; b.journal == nil && b.index.peers == nil {
		return nil
	}
	return p.turn.hold()
}

// Credentials hold the user name, password and certificate of a CONNECT.
type Credentials struct {
	ClientID string
	Username string
	Password []byte
	Peer     *x509.Certificate // verified client certificate, nil without one
	Remote   net.Addr
	Listener string
	// Known is what the sender of a WebSocket's HTTP request stands on, nil if
	// who it is is for the other credentials to say. See [Broker.WebSocketOf].
	Known *grant.Grant
}

// A Verdict is the answer to "may this client do that". The zero value
// allows; otherwise Reason is an MQTT 5 reason code (0x87 not authorized
// for most) and Text is told to MQTT 5 clients.
type Verdict struct {
	Reason byte
	Text   string
	// Unstored marks a publication that is refused because its store failed. MQTT 3.1.1
	// has no acknowledgement that refuses: the connection of such a client ends without
	// one, so that the client sends the message again.
	Unstored bool
}

// NotAuthorized refuses with reason code 0x87.
func NotAuthorized(text string) Verdict { return Verdict{Reason: 0x87, Text: text} }

// Allowed reports whether the verdict lets the action pass.
func (v Verdict) Allowed() bool { return v.Reason == 0 }

// Permissions decides about topics. It is asked for every publish of a
// client (wills included, when they fire) and every subscription, on the
// message path: implementations must be fast and must not block.
type Permissions interface {
	MayPublish(c *Client, topic string, retain bool) Verdict
	MaySubscribe(c *Client, filter string) Verdict // $share/g/F is asked as F
}

// Presence is told about connections and subscriptions, in order per client,
// and before the client is: who has its CONNACK or SUBACK is known here.
// When a client id is taken over, Disconnected of the old client comes before
// Connected of the new one. The subscriptions of a resumed session are told
// again after Connected; Disconnected ends them all without further word.
// A filter may be told twice and is as it stands in SUBSCRIBE, $share/g/F
// included. Calls must not block.
type Presence interface {
	Connected(c *Client)
	Disconnected(c *Client, reason string)
	Subscribed(c *Client, filter string)
	Unsubscribed(c *Client, filter string)
}
