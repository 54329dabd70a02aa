package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/autopaho"

	"github.com/aibridge/aibridge/protocol"
)

// A Client is a connection to a bridge that restores itself.
type Client struct {
	options options
	topics  atomic.Pointer[protocol.Topics] // those of the bridge from the first connection on
	log     *slog.Logger

	ctx    context.Context // ends when the client does, with the reason as its cause
	cancel context.CancelCauseFunc
	mqtt   *autopaho.ConnectionManager // ends with ctx
	tasks  sync.WaitGroup              // goroutines that end with ctx

	established atomic.Bool // whether there was a connection ever

	inbox         *inbox
	cache         *cache
	subscriptions *subscriptions
	server        *server // nil without an agent

	mu           sync.Mutex
	hosted       map[protocol.AgentID]*server // agents beside the client's own
	connection   *connection                  // the current connection, nil without one
	changed      chan struct{}                // closed when connection changes
	refusal      error                        // why the last attempt to connect failed
	tokenExpires time.Time                    // of the token shown last; zero without one
}

// errClosed is the reason why nothing works after Close.
var errClosed = errors.New("the client is closed")

// Dial connects to a bridge at mqtt://host:port, mqtts://, ws:// or wss://.
// It tries again until ctx ends, unless the bridge refuses the credential or the
// client id, which do not get better. ctx bounds only this; the connection lives
// until [Client.Close].
func Dial(ctx context.Context, address string, opts ...Option) (*Client, error) {
	var o options
	for _, set := range opts {
		set(&o)
	}
	return dial(ctx, address, o)
}

func dial(ctx context.Context, address string, o options) (*Client, error) {
	o.setDefaults()
	server, err := checkDial(address, &o)
	if err != nil {
		return nil, err
	}
	c := &Client{
		options: o,
		log:     o.log,
		inbox:   newInbox(),
		changed: make(chan struct{}),
	}
	c.setRoot(o.root)
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.subscriptions = newSubscriptions(c)
	if o.cache {
		c.cache = newCache()
	}
	if o.agent != nil {
		c.server = newServer(c, *o.agent)
	}
	if err := c.connect(server); err != nil {
		c.cancel(err)
		return nil, protocol.Wrap(protocol.Internal, err, "the client cannot start")
	}
	if _, err := c.online(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func checkDial(address string, o *options) (*url.URL, error) {
	server, err := url.Parse(address)
	if err != nil || server.Host == "" {
		return nil, protocol.InvalidParam("address", fmt.Sprintf("must be a URL such as mqtt://127.0.0.1:1883, is %q", address))
	}
	switch server.Scheme {
	case "mqtt", "tcp", "mqtts", "tls", "ssl", "ws", "wss":
	default:
		return nil, protocol.InvalidParam("address", fmt.Sprintf("scheme must be mqtt, mqtts, ws or wss, is %q", server.Scheme))
	}
	if reason := protocol.ClientID("").Rule().Check(o.clientID); reason != "" {
		return nil, protocol.InvalidParam("client id", reason)
	}
	if o.agent != nil {
		if reason := o.agent.ID.Rule().Check(string(o.agent.ID)); reason != "" {
			return nil, protocol.InvalidParam("agent id", reason)
		}
	}
	return server, nil
}

// ID is the MQTT client id.
func (c *Client) ID() string { return c.options.clientID }

// Topics are the topics of the bridge.
func (c *Client) Topics() protocol.Topics { return *c.topics.Load() }

func (c *Client) setRoot(root string) {
	topics := protocol.NewTopics(root)
	c.topics.Store(&topics)
}

// learnRoot takes the first level of all topics, unless it was given, from the
// bridge's Response Information, which names the client's response topic.
func (c *Client) learnRoot(responseInfo string) {
	root, _, found := strings.Cut(responseInfo, "/")
	if c.options.root == "" && found && responseInfo == protocol.NewTopics(root).ClientResponse(c.ID()) {
		c.setRoot(root)
	}
}

// Connected reports whether the client is connected at the moment.
func (c *Client) Connected() bool { return c.current() != nil }

// Done is closed when the client has ended: by [Client.Close], or because
// another client took its id over. [Client.Err] says why.
func (c *Client) Done() <-chan struct{} { return c.ctx.Done() }

// Err is the reason why the client has ended, nil while it has not and after
// [Client.Close].
func (c *Client) Err() error {
	if cause := context.Cause(c.ctx); !errors.Is(cause, errClosed) {
		return cause
	}
	return nil
}

// spawn runs f as one of the client's goroutines. f ends with c.ctx.
func (c *Client) spawn(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() == nil {
		c.tasks.Go(f)
	}
}

// end ends the client's context for good. Nothing is spawned any more.
func (c *Client) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel(cause)
}

// Close ends the client. Invocations at work are cancelled and answered with
// 5002; Close waits a few seconds for them and for other handlers, and fails if
// they do not end. Registrations stay, the agent goes offline.
func (c *Client) Close() error {
	c.closeServers()
	c.end(errClosed)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-c.mqtt.Done()
		c.tasks.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(closeTimeout):
		return errors.New("a handler or the connection does not end")
	}
}
