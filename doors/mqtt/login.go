package mqtt

import (
	"context"
	"net"
	"net/netip"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
)

// shown is the credential of an MQTT client, without its secret.
func shown(c broker.Credentials) security.Shown {
	return security.Shown{Certificate: c.Peer, Door: Name, Client: c.ClientID, From: addressOf(c.Remote)}
}

// inThePage reports whether a client is a page of somebody who has signed in:
// the request for its WebSocket has said who that is. One that shows a
// credential of its own is judged by that.
func inThePage(c broker.Credentials) bool {
	return c.Known != nil && c.Username == "" && len(c.Password) == 0
}

// authenticate lets a client in by its certificate, user name and password.
func (s *server) authenticate(ctx context.Context, c broker.Credentials) (*protocol.Principal, error) {
	if inThePage(c) {
		who, err := s.Credentials.Principal(*c.Known)
		if err != nil {
			return nil, err
		}
		return who, s.admit(c, who)
	}
	who, err := s.Authenticator.Password(ctx, shown(c), c.Username, c.Password)
	if err != nil {
		return nil, err
	}
	return who, s.admit(c, who)
}

// admit is room for one who is refused without it.
func (s *server) admit(c broker.Credentials, who *protocol.Principal) error {
	err := s.room(c.ClientID, who)
	if tell := s.ServerOptions.Broker.Refused; err != nil && tell != nil {
		tell(broker.Refusal{
			Of: broker.OfConnect, ClientID: c.ClientID, Who: who, Remote: c.Remote, Listener: c.Listener,
			Reason: reasonQuota, Text: protocol.AsError(err).Message,
		})
	}
	return err
}

// recognise lets those in who need no waiting: what it does not tell,
// authenticate does.
func (s *server) recognise(c broker.Credentials) *protocol.Principal {
	if c.Known != nil { // seldom, and authenticate says why one is refused
		return nil
	}
	who := s.Authenticator.Recognise(shown(c), c.Username, c.Password)
	if who == nil || s.room(c.ClientID, who) != nil {
		return nil
	}
	return who
}

// enhanced are the methods of enhanced authentication.
func (s *server) enhanced() map[string]broker.Method {
	return map[string]broker.Method{
		security.MethodToken: secretMethod{s, security.TokenSecret},
		security.MethodKey:   secretMethod{s, security.KeySecret},
	}
}

// A secretMethod has the client show a token or a key as authentication data:
// on CONNECT, or when it is asked, and again with AUTH to renew what it is.
type secretMethod struct {
	*server
	kind security.SecretKind
}

// Start implements [broker.Method].
func (s secretMethod) Start(_ context.Context, c broker.Credentials) (broker.Exchange, error) {
	return &secretExchange{secretMethod: s, client: c}, nil
}

type secretExchange struct {
	secretMethod
	client broker.Credentials
	asked  bool
}

// Next implements [broker.Exchange].
func (e *secretExchange) Next(ctx context.Context, data []byte) ([]byte, *broker.Identity, error) {
	if len(data) == 0 && !e.asked {
		e.asked = true
		return nil, nil, nil
	}
	s := shown(e.client)
	s.Secret, s.Kind = string(data), e.kind
	if len(data) == 0 || len(e.client.Password) > 0 { // two secrets say two things
		s.Secret, s.Kind = "", security.NoSecret
	}
	who, err := e.Authenticator.Authenticate(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	return nil, &broker.Identity{Principal: who}, e.admit(e.client, who)
}

func addressOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr()
	}
	if a == nil {
		return netip.Addr{}
	}
	from, _ := netip.ParseAddrPort(a.String())
	return from.Addr()
}
