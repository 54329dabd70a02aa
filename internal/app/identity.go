package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/token"
)

// off is the address of a listener that is not wanted.
const off = "off"

// mqttsAddress is where MQTT over TLS is served, off for nowhere: what is
// configured, or beside MQTT.
func (c *Config) mqttsAddress() string {
	if c.MQTTS != "" {
		return c.MQTTS
	}
	host, port, err := net.SplitHostPort(c.MQTT)
	switch {
	case c.MQTT == off:
		return "127.0.0.1:8883"
	case err != nil:
		return off // the address of MQTT is wrong, which is said elsewhere
	case port == "1883":
		return net.JoinHostPort(host, "8883")
	}
	return net.JoinHostPort(host, "0")
}

// checkTLS says what is wrong with the settings of TLS.
func (c *Config) checkTLS() error {
	if c.MQTT == off && c.mqttsAddress() == off {
		return errors.New("mqtt and mqtts: one of them must be on")
	}
	return c.TLS.Check()
}

// openIdentity readies everything that says who somebody is. The authorities
// are open.
func (a *App) openIdentity(ctx context.Context, keys *store.Table[security.Key], uses *store.Table[security.KeyUse], revocations *store.Table[security.Revocation], mqtt *mqttSide) error {
	ring, err := security.OpenKeyring(a.config.Data, keys)
	if err != nil {
		return err
	}
	a.keyring = ring
	if !a.config.Dev {
		made, err := ring.EnsureAdministrator(ctx, a.config.Data, time.Now())
		if err != nil {
			return err
		}
		if made {
			a.log.Info("made the administrator's key", "file", AdminKeyFile)
		}
	}
	authenticating := security.AuthenticatorOptions{
		Keys: ring, Certificates: a.pki, Dev: a.config.Dev, Settled: newLoginRecord(a.audit).settled, Log: a.log,
	}
	verifier, err := token.New(token.Options{BridgeID: a.config.ID, Issuers: a.config.Tokens.Issuers, Certificates: a.pki, Log: a.log})
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	authenticating.Tokens = verifier
	a.openRevocations(revocations, verifier)
	a.credentials.Use(security.Sources{Keys: ring, Tokens: verifier, Revocations: a.revocations, Certificates: a.pki, Dev: a.config.Dev})
	authenticating.Check = a.credentials.Check
	a.run("tokens", verifier.Run)
	a.authenticator = security.NewAuthenticator(authenticating)
	a.keys = security.NewKeyService(security.KeyOptions{Ring: ring, Uses: uses, BridgeID: a.config.ID, Clash: a.parties.Clash, Names: a.policy.engine, DataKeys: a.seals, Reseal: a.files.Reseal, Changed: recordKey(a.audit), Log: a.log})
	a.run("keys", a.keys.Run)
	return nil
}

// Reasons to disconnect an MQTT client (MQTT 5 §3.14.2.1).
const (
	reasonNotAuthorized  = 0x87
	reasonAdministrative = 0x98
)

// disconnectFor ends the MQTT connections of principals for whom there is an error,
// with that, and returns how many there were. Other doors have the end of a
// credential told to them, see [grant.Authority].
func (m *mqttSide) disconnectFor(why func(*protocol.Principal) error) int {
	n := 0
	for _, c := range m.clients.Range {
		client := c.(*broker.Client)
		if err := why(client.Principal()); err != nil {
			n++
			m.dismiss(client, err)
		}
	}
	return n
}

// dismiss ends the connection of a client whose credential is of no more use.
func (m *mqttSide) dismiss(c *broker.Client, why error) {
	reason := byte(reasonAdministrative)
	if protocol.CodeOf(why) == protocol.CertificateExpired {
		reason = reasonNotAuthorized
	}
	m.end(c, reason, protocol.AsError(why).Message, endAttempts)
}

// A client that is being let in is known here before the broker can end it.
const (
	endAttempts = 100
	endPause    = 10 * time.Millisecond
)

// end ends the connection of a client, if need be when it is complete.
func (m *mqttSide) end(c *broker.Client, reason byte, text string, attempts int) {
	if m.broker.End(c, reason, text) || attempts == 0 {
		return
	}
	if current, ok := m.clients.Load(c.Session()); ok && current == c {
		time.AfterFunc(endPause, func() { m.end(c, reason, text, attempts-1) })
	}
}

// renewed has what a client began go on with its newer credential.
func (m *mqttSide) renewed(c *broker.Client, before *protocol.Principal) {
	m.credentials.Renewed(before, c.Principal())
	m.recheck(c)
}

// recheck ends a client whose credential was revoked while it was being let
// in, or renewed.
func (m *mqttSide) recheck(c *broker.Client) {
	if err := m.credentials.Check(c.Principal()); err != nil {
		go m.dismiss(c, err)
	}
}

// mqttDoor is by which MQTT clients come in.
const mqttDoor = "mqtt"

// shown is what an MQTT client shows, but for a secret.
func shown(c broker.Credentials) security.Shown {
	return security.Shown{Certificate: c.Peer, Door: mqttDoor, Client: c.ClientID, From: addressOf(c.Remote)}
}

// authenticate lets a client in by its certificate, user name and password.
func (m *mqttSide) authenticate(ctx context.Context, c broker.Credentials) (*protocol.Principal, error) {
	who, err := m.authenticator.Password(ctx, shown(c), c.Username, c.Password)
	if err != nil {
		return nil, err
	}
	return who, m.room(c.ClientID, who)
}

// recognise lets those in who need no waiting: what it does not tell,
// authenticate does.
func (m *mqttSide) recognise(c broker.Credentials) *protocol.Principal {
	who := m.authenticator.Recognise(shown(c), c.Username, c.Password)
	if who == nil || m.room(c.ClientID, who) != nil {
		return nil
	}
	return who
}

// enhanced are the methods of enhanced authentication.
func (m *mqttSide) enhanced() map[string]broker.Method {
	return map[string]broker.Method{
		security.MethodToken: secretMethod{m, security.TokenSecret},
		security.MethodKey:   secretMethod{m, security.KeySecret},
	}
}

// A secretMethod has the client show a token or a key as authentication data:
// on CONNECT, or when it is asked, and again with AUTH to renew what it is.
type secretMethod struct {
	side *mqttSide
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
	who, err := e.side.authenticator.Authenticate(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	return nil, &broker.Identity{Principal: who}, e.side.room(s.Client, who)
}
