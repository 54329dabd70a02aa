package broker

import (
	"net"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// A Refusal tells that a client was refused something, or disconnected. See
// [Options.Refused].
type Refusal struct {
	Of        RefusalOf
	ClientID  string              // as the client says it, "" if it has said none
	Who       *protocol.Principal // nil before it is known
	Remote    net.Addr
	Listener  string
	Reason    byte   // reason code of MQTT 5, 0 for a TLS handshake
	Text      string // more about it, for people; may be ""
	Topic     string // topic or filter, "" of connections
	Handshake error  // why TLS failed; nil for others
}

// A RefusalOf is what was refused.
type RefusalOf byte

// The requests of clients that are refused.
const (
	OfHandshake  RefusalOf = iota // TLS
	OfConnect                     // CONNECT; of wrong credentials [Options].Authenticate knows more
	OfConnection                  // a connection that stood: it was ended
	OfPublish
	OfSubscribe
)

// report tells of a refusal.
func (b *Broker) report(r Refusal) {
	if b.options.Refused != nil {
		b.options.Refused(r)
	}
}

// connectRefused tells that a CONNECT was refused for what it says.
func (c *conn) connectRefused(clientID string, who *protocol.Principal, why *packet.Error) {
	c.b.report(Refusal{Of: OfConnect, ClientID: clientID, Who: who, Remote: c.remote, Listener: c.door.name, Reason: byte(why.Reason), Text: why.Text})
}

// ended tells that the broker has ended a client's connection, unless that is
// because it closes.
func (b *Broker) ended(client *Client, reason packet.Reason, text string) {
	if client == nil || reason == packet.ServerShuttingDown {
		return
	}
	b.report(Refusal{
		Of: OfConnection, ClientID: client.ID, Who: client.Principal(), Remote: client.Remote, Listener: client.Listener, Reason: byte(reason), Text: text,
	})
}

// topicRefused tells that a connected client was refused a topic.
func (c *conn) topicRefused(of RefusalOf, topic string, reason packet.Reason, text string) {
	c.b.report(Refusal{
		Of: of, ClientID: c.client.ID, Who: c.client.Principal(), Remote: c.remote, Listener: c.door.name,
		Reason: byte(reason), Text: text, Topic: topic,
	})
}
