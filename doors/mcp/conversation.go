package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of one conversation.
const (
	mostHeard = 64 // unread messages
	mostCalls = 32 // under way
)

// A Client is a client of another transport than HTTP, such as topics of MQTT.
type Client struct {
	// Principal is the client's, as of its last authentication.
	Principal func() *protocol.Principal
	// Reply sends a message to the client. It must not block for long.
	Reply func(body []byte)
	// Tell sends a notification about a change of a list or a resource. It must not
	// block for long.
	Tell func(body []byte)
	// Ended is called once, after the end of the conversation by either side. It must
	// not block.
	Ended func()
}

// A Conversation is a session with a client, in versions that have sessions.
type Conversation struct {
	door   *Door
	client Client
	id     string
	cancel context.CancelFunc
	done   func() // frees its place

	incoming chan jsonrpc.Message
	closed   chan struct{}
	end      sync.Once

	mu      sync.Mutex
	open    map[string]bool // calls under way, by their ids
	opening string          // id of the call that opens the session
}

// Converse begins a conversation, whose first message initializes it. It ends with ctx,
// with the credential of the principal, and with [Conversation.Close].
func (d *Door) Converse(ctx context.Context, client Client) (*Conversation, error) {
	who := client.Principal()
	ctx, done, refusal := d.requests.begin(ctx, who)
	if refusal != nil {
		return nil, refusal
	}
	c := &Conversation{
		door: d, client: client, id: strings.ToLower(rand.Text()), done: done,
		incoming: make(chan jsonrpc.Message, mostHeard), closed: make(chan struct{}), open: make(map[string]bool),
	}
	ctx, c.cancel = context.WithCancel(ctx)
	ctx = context.WithValue(ctx, carrierKey{}, ctx)
	ctx = context.WithValue(ctx, principalKey{}, client.Principal)
	ctx = context.WithValue(ctx, requestKey{}, (*request)(nil)) // nothing outlives the conversation
	if _, err := d.guests.of(who).server.Connect(ctx, c, nil); err != nil {
		c.hangUp()
		return nil, err
	}
	context.AfterFunc(ctx, c.hangUp)
	return c, nil
}

// Take takes a message of the client. It does not block. It reports false for one that is
// none of JSON-RPC.
func (c *Conversation) Take(body []byte) bool {
	seen := peek(body)
	refuse := func(err *protocol.Error) {
		c.client.Reply(rpcError(seen.id, rpcCode(err), err.Message, errorData(err)))
	}
	if len(body) > c.door.opts.MaxBytes {
		refuse(protocol.Errorf(protocol.PayloadTooLarge, "requests may have %d bytes", c.door.opts.MaxBytes).With("limit", c.door.opts.MaxBytes))
		return true
	}
	if seen.malformed {
		return false
	}
	if seen.fault != nil {
		c.client.Reply(rpcError(seen.id, seen.fault.code, seen.fault.text, nil))
		return true
	}
	m, err := jsonrpc.DecodeMessage(bytes.Clone(body))
	if err != nil {
		return false
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		if err := c.enter(idOf(r.ID.Raw()), r.Method); err != nil {
			refuse(err)
			return true
		}
	}
	select {
	case c.incoming <- m:
	default:
		c.hangUp() // the client sends faster than the bridge reads
	}
	return true
}

// enter notes a call that is under way, unless there are too many.
func (c *Conversation) enter(id, method string) *protocol.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open[id]:
		return protocol.Errorf(protocol.InvalidState, "a call with this id is under way")
	case len(c.open) == mostCalls:
		return protocol.Errorf(protocol.LimitReached, "at most %d calls of a session are under way", mostCalls)
	}
	c.open[id] = true
	if method == initializeMethod && c.opening == "" {
		c.opening = id
	}
	return nil
}

// Close ends the conversation, and the calls under way in it.
func (c *Conversation) Close() error {
	c.hangUp()
	return nil
}

func (c *Conversation) hangUp() {
	c.end.Do(func() {
		close(c.closed)
		c.cancel()
		c.done()
		c.client.Ended()
	})
}

// Connect implements [sdk.Transport].
func (c *Conversation) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID implements [sdk.Connection].
func (c *Conversation) SessionID() string { return c.id }

// Read implements [sdk.Connection].
func (c *Conversation) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.incoming:
		return m, nil
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements [sdk.Connection].
func (c *Conversation) Write(_ context.Context, m jsonrpc.Message) error {
	select {
	case <-c.closed:
		return io.ErrClosedPipe
	default:
	}
	body, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *jsonrpc.Request:
		if !m.IsCall() && (strings.HasSuffix(m.Method, "/list_changed") || m.Method == "notifications/resources/updated") {
			c.client.Tell(body)
			return nil
		}
	case *jsonrpc.Response:
		defer c.leave(m)
	}
	c.client.Reply(body)
	return nil
}

// leave forgets a call that is answered. One that could not open the session ends it.
func (c *Conversation) leave(r *jsonrpc.Response) {
	id := idOf(r.ID.Raw())
	c.mu.Lock()
	delete(c.open, id)
	failed := r.Error != nil && id == c.opening
	c.mu.Unlock()
	if failed {
		c.hangUp()
	}
}
