package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/protocol"
)

const (
	connectTimeout = 10 * time.Second
	packetTimeout  = 10 * time.Second // for the bridge to acknowledge a packet
	closeTimeout   = 5 * time.Second
)

// A connection is one connection. It ends; the client makes another.
type connection struct {
	ctx    context.Context // ends when the connection is lost
	cancel context.CancelFunc
	ready  chan struct{} // closed when the client's subscriptions are confirmed
}

// reasonTakenOver disconnects a client whose id another one uses now.
const reasonTakenOver = 0x8E

// connect starts the connection manager. It goes on until c.ctx ends.
func (c *Client) connect(server *url.URL) error {
	config := autopaho.ClientConfig{
		ServerUrls:                    []*url.URL{server},
		TlsCfg:                        c.options.tls,
		KeepAlive:                     uint16(min(max(c.options.keepAlive/time.Second, 1), math.MaxUint16)),
		CleanStartOnInitialConnection: true,
		ConnectTimeout:                connectTimeout,
		ConnectUsername:               c.options.username,
		ConnectPassword:               c.options.password,
		ReconnectBackoff: func(attempt int) time.Duration {
			if attempt == 0 && !c.established.Load() {
				return 0
			}
			return backoff(attempt, 30*time.Second)
		},
		ConnectPacketBuilder: c.showAndAsk,
		OnConnectionUp: func(m *autopaho.ConnectionManager, answer *paho.Connack) {
			if answer.Properties != nil && !c.established.Load() {
				c.learnRoot(answer.Properties.ResponseInfo)
			}
			c.established.Store(true)
			c.connected(m)
		},
		OnConnectionDown: func() bool { c.disconnected(); return true },
		OnConnectError:   c.refused,
		ClientConfig: paho.ClientConfig{
			ClientID:           c.options.clientID,
			PacketTimeout:      packetTimeout,
			OnPublishReceived:  []func(paho.PublishReceived) (bool, error){c.received},
			OnServerDisconnect: c.dismissed,
		},
	}
	if c.options.token != nil {
		config.AuthHandler = tokenHandler{}
	}
	if c.options.intake != nil {
		c.options.intake.keepSession(&config)
	}
	var err error
	c.mqtt, err = autopaho.NewConnection(c.ctx, config)
	return err
}

// showAndAsk completes CONNECT: it asks where answers go and for the reasons of
// refusals, and shows a token.
func (c *Client) showAndAsk(packet *paho.Connect, _ *url.URL) (*paho.Connect, error) {
	if packet.Properties == nil {
		packet.Properties = &paho.ConnectProperties{}
	}
	packet.Properties.RequestResponseInfo, packet.Properties.RequestProblemInfo = true, true
	if c.options.token == nil {
		return packet, nil
	}
	return c.showToken(packet)
}

// connected begins a connection. It must not block.
func (c *Client) connected(m *autopaho.ConnectionManager) {
	l := &connection{ready: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(c.ctx)
	c.setConnection(l)
	c.spawn(func() { c.establish(m, l) })
	if c.options.token != nil {
		c.spawn(func() { c.renewToken(m, l) })
	}
}

func (c *Client) disconnected() {
	c.log.Info("connection to the bridge lost")
	c.setConnection(nil)
	if c.cache != nil {
		c.cache.suspend()
	}
}

func (c *Client) setConnection(l *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connection != nil {
		c.connection.cancel()
	}
	c.connection = l
	close(c.changed)
	c.changed = make(chan struct{})
}

// refused notes why a connection could not be made.
func (c *Client) refused(err error) {
	refusal, final := connectError(err)
	c.log.Info("connection to the bridge failed", "error", refusal)
	c.mu.Lock()
	c.refusal = refusal
	c.mu.Unlock()
	if final && !c.established.Load() { // later it may pass
		c.end(refusal)
	}
}

// connectError is a failed attempt as callers see it, and whether the next one
// will fail as well.
func connectError(err error) (refusal *protocol.Error, final bool) {
	var denied *autopaho.ConnackError
	if !errors.As(err, &denied) {
		return unreachable(err)
	}
	code := map[byte]protocol.Code{
		0x85: protocol.InvalidParameter,
		0x86: protocol.CredentialInvalid,
		0x87: protocol.PermissionDenied,
		0x8A: protocol.PermissionDenied,
		0x8C: protocol.CredentialInvalid,
	}[denied.ReasonCode]
	text := cmp.Or(denied.Reason, map[byte]string{
		0x85: "the client id is not valid",
		0x86: "the credential is missing or not valid",
		0x87: "not allowed, or the client id is somebody else's",
		0x89: "it is busy",
		0x8A: "this client is banned",
	}[denied.ReasonCode], fmt.Sprintf("reason %#x", denied.ReasonCode))
	if code == "" {
		return protocol.Wrap(protocol.TargetUnavailable, err, "the bridge refuses connections: "+text), false
	}
	return protocol.Wrap(code, err, "the bridge refuses the connection: "+text), true
}

// unreachable is an attempt that did not get as far as an answer. Certificates
// do not get better by trying again.
func unreachable(err error) (refusal *protocol.Error, final bool) {
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return protocol.Wrap(protocol.TargetUnavailable, err, "the bridge's certificate is not trusted: "+untrusted.Err.Error()), true
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" { // a TLS alert
		return protocol.Wrap(protocol.CredentialInvalid, err, "the bridge does not accept the certificate: "+alert.Err.Error()), true
	}
	text := err.Error()
	if failed, ok := errors.AsType[*net.OpError](err); ok { // without the address once more
		text = failed.Error()
	}
	return protocol.Wrap(protocol.TargetUnavailable, err, "the bridge cannot be reached: "+text), false
}

// dismissed ends the client if another one took its id over: to reconnect
// would only throw the other one out.
func (c *Client) dismissed(d *paho.Disconnect) {
	text := ""
	if d.Properties != nil {
		text = d.Properties.ReasonString
	}
	c.log.Info("the bridge ended the connection", "reason", fmt.Sprintf("%#x", d.ReasonCode), "text", text)
	if d.ReasonCode == reasonTakenOver {
		c.end(protocol.Errorf(protocol.InvalidState, "another client uses the id %s", c.options.clientID))
	}
}

// establish subscribes and registers on a fresh connection as on the last one.
func (c *Client) establish(m *autopaho.ConnectionManager, l *connection) {
	// A first skill that is served from here on sees to all that itself.
	serving := c.serving()
	for attempt := 1; ; attempt++ {
		err := c.subscribeAll(l.ctx, m, serving)
		if err == nil {
			break
		}
		if l.ctx.Err() != nil {
			return
		}
		if refusal, ok := errors.AsType[*protocol.Error](err); ok && c.options.intake != nil {
			c.end(refusal)
			return
		}
		c.log.Warn("subscriptions not restored", "error", err)
		if sleep(l.ctx, backoff(attempt, 30*time.Second)) != nil {
			return
		}
	}
	close(l.ready)
	for _, s := range serving {
		for attempt := 1; s.announce(l.ctx) != nil; attempt++ {
			if sleep(l.ctx, backoff(attempt, 30*time.Second)) != nil {
				return
			}
		}
	}
}

// subscribeAll subscribes to the client's own topics and to the subscriptions of
// its users. Only a refused response topic is an error.
func (c *Client) subscribeAll(ctx context.Context, m *autopaho.ConnectionManager, serving []*server) error {
	if c.options.intake != nil {
		return c.options.intake.subscribe(ctx, m)
	}
	if err := subscribe(ctx, m, c.Topics().ClientResponse(c.ID()), 1); err != nil {
		return err
	}
	if c.cache != nil {
		if err := subscribe(ctx, m, c.Topics().Event("+"), 0); err == nil {
			c.cache.resume()
		} else {
			c.log.Info("answers are not cached", "error", err)
		}
	}
	if slices.ContainsFunc(serving, func(s *server) bool { return !s.guest }) { // the others: with their registration
		if err := subscribe(ctx, m, c.Topics().AgentRequest(c.options.agent.ID), 1); err != nil {
			return err
		}
	}
	for filter, qos := range c.subscriptions.filters() {
		if err := subscribe(ctx, m, filter, qos); err != nil {
			c.log.Warn("subscription not restored", "filter", filter, "error", err)
		}
	}
	return nil
}

// online waits for a connection that is ready for use.
func (c *Client) online(ctx context.Context) (*connection, error) {
	for {
		c.mu.Lock()
		l, changed := c.connection, c.changed
		c.mu.Unlock()
		var ready <-chan struct{}
		if l != nil {
			ready = l.ready
		}
		select {
		case <-c.ctx.Done():
			return nil, c.ended()
		default:
		}
		select {
		case <-ready:
			return l, nil
		case <-changed:
		case <-ctx.Done():
			return nil, c.offline(ctx)
		case <-c.ctx.Done():
		}
	}
}

// current is the connection if it is ready for use now, nil otherwise.
func (c *Client) current() *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connection == nil {
		return nil
	}
	select {
	case <-c.connection.ready:
		return c.connection
	default:
		return nil
	}
}

// offline is the error for a wait for a connection that ctx ended.
func (c *Client) offline(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return protocol.Wrap(protocol.Cancelled, context.Cause(ctx), "cancelled while not connected to the bridge")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var refusal *protocol.Error
	if errors.As(c.refusal, &refusal) {
		return refusal
	}
	return protocol.Wrap(protocol.TargetUnavailable, ctx.Err(), "not connected to the bridge")
}

// ended is the error of requests to a client that has ended.
func (c *Client) ended() error {
	cause := context.Cause(c.ctx)
	var known *protocol.Error
	if errors.As(cause, &known) {
		return known
	}
	return protocol.Wrap(protocol.InvalidState, cause, cause.Error())
}
