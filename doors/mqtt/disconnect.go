package mqtt

import (
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// Reasons to disconnect an MQTT client (MQTT 5 §3.14.2.1).
const (
	reasonNotAuthorized  = 0x87
	reasonTakenOver      = 0x8E
	reasonQuota          = 0x97
	reasonAdministrative = 0x98
)

// dismiss ends the connection of a client whose credential is of no more use.
func (s *server) dismiss(c *broker.Client, why error) {
	reason := byte(reasonAdministrative)
	if protocol.CodeOf(why) == protocol.CertificateExpired {
		reason = reasonNotAuthorized
	}
	s.end(c, reason, protocol.AsError(why).Message, endAttempts)
}

// A client that is being let in is known here before the broker can end it.
const (
	endAttempts = 100
	endPause    = 10 * time.Millisecond
)

// renewed lets the work that a client began go on with its newer credential.
func (s *server) renewed(c *broker.Client, before *protocol.Principal) {
	s.Credentials.Renewed(before, c.Principal())
	s.recheck(c)
}

// recheck ends a client whose credential was revoked while it was being let
// in, or renewed.
func (s *server) recheck(c *broker.Client) {
	if err := s.Credentials.Check(c.Principal()); err != nil {
		go s.dismiss(c, err)
	}
}

// end ends the connection of a client, if need be when it is complete.
func (s *server) end(c *broker.Client, reason byte, text string, attempts int) {
	if s.broker.End(c, reason, text) || attempts == 0 {
		return
	}
	if s.isConnected(c) {
		time.AfterFunc(endPause, func() { s.end(c, reason, text, attempts-1) })
	}
}

// DisconnectFor ends the connections of principals for whom there is an error,
// with that, and returns how many there were. Other doors have the end of a
// credential told to them, see [grant.Authority].
func (c *Clients) DisconnectFor(why func(*protocol.Principal) error) int {
	s := c.server.Load()
	if s == nil {
		return 0
	}
	n := 0
	for _, value := range c.connected.Range {
		client := value.(*broker.Client)
		if err := why(client.Principal()); err != nil {
			n++
			s.dismiss(client, err)
		}
	}
	return n
}

// Disconnect ends a connection whose agent was taken over by another client. A
// connection that has been replaced meanwhile is left alone.
func (c *Clients) Disconnect(conn any, reason string) {
	client, s := conn.(*broker.Client), c.server.Load()
	if s != nil && c.isConnected(client) {
		go s.broker.Disconnect(client.Session(), reasonTakenOver, reason)
	}
}
