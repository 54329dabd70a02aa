package mqtt

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// mostWaiting is the greatest number of unread messages of a device.
const mostWaiting = 64

// disconnectedMethod is the method of the notification by which either side ends a
// session.
const disconnectedMethod = "notifications/disconnected"

// disconnected is the note.
const disconnected = `{"jsonrpc":"2.0","method":"` + disconnectedMethod + `"}`

// A talk is a session of the bridge with a device. It is an sdk.Connection.
type talk struct {
	topics   *Topics
	of       *device
	with     *broker.Client
	id       string // mcp-client-id of the bridge, made for this session
	at       place  // of its messages
	incoming chan jsonrpc.Message
	ended    chan struct{}
	end      sync.Once
}

func newTalk(of *device, with *broker.Client) *talk {
	k := &talk{
		topics: of.topics, of: of, with: with, id: ServerID + "-" + strings.ToLower(rand.Text()),
		incoming: make(chan jsonrpc.Message, mostWaiting), ended: make(chan struct{}),
	}
	k.at = place{family: rpc, client: k.id, server: with.ID, name: of.serverName}
	return k
}

// SessionID implements sdk.Connection.
func (k *talk) SessionID() string { return "" }

// Read implements sdk.Connection.
func (k *talk) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-k.incoming:
		return m, nil
	case <-k.ended:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errDeaf = errors.New("the device does not listen")

// Write implements sdk.Connection. A session begins on the topic of control.
func (k *talk) Write(_ context.Context, m jsonrpc.Message) error {
	body, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	to := k.at
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "initialize" {
		to = place{family: control, server: k.at.server, name: k.at.name}
	}
	return k.send(to, body)
}

// send publishes for the owner of the device alone.
func (k *talk) send(to place, body []byte) error {
	select {
	case <-k.ended:
		return errGone
	default:
	}
	receivers, err := k.topics.Publish(protocol.Only(k.of.owner), messageTo(to.topic(), isClient, k.id, body))
	if err == nil && receivers == 0 {
		err = errDeaf
	}
	return err
}

// Close implements sdk.Connection. It notifies the device of the end of the session,
// and of the client of that id.
func (k *talk) Close() error {
	_ = k.send(k.at, []byte(disconnected)) // the device may be offline
	_ = k.send(place{family: clientPresence, client: k.id}, []byte(disconnected))
	k.hangUp()
	return nil
}

// hangUp ends the session: calls under way get no answer.
func (k *talk) hangUp() {
	k.end.Do(func() {
		close(k.ended)
		k.topics.mu.Lock()
		defer k.topics.mu.Unlock()
		delete(k.topics.talks, k.id)
	})
}

// hear takes a message of the device. It does not block.
func (k *talk) hear(payload []byte) broker.Verdict {
	m, err := jsonrpc.DecodeMessage(bytes.Clone(payload))
	if err != nil {
		return broker.Verdict{Reason: payloadInvalid, Text: "the message is none of JSON-RPC 2.0"}
	}
	if r, ok := m.(*jsonrpc.Request); ok && !r.IsCall() && r.Method == disconnectedMethod {
		k.topics.withdraw(k.with, k.of.serverName)
		return broker.Verdict{}
	}
	return k.pass(m)
}

// hearChange takes a notification of the device that is for all its clients.
func (k *talk) hearChange(payload []byte) broker.Verdict {
	m, err := jsonrpc.DecodeMessage(bytes.Clone(payload))
	r, ok := m.(*jsonrpc.Request)
	if err != nil || !ok || r.IsCall() {
		return broker.Verdict{Reason: payloadInvalid, Text: "the message is no notification of JSON-RPC 2.0"}
	}
	return k.pass(r)
}

// pass passes a message to the reader. Too many messages of a device end its session.
func (k *talk) pass(m jsonrpc.Message) broker.Verdict {
	select {
	case k.incoming <- m:
		return broker.Verdict{}
	default:
	}
	k.topics.Log.Warn("a device that is an MCP server sends more than is read", "client", k.with.ID, "server", k.of.id.name)
	k.hangUp()
	return broker.Verdict{Reason: quotaExceeded, Text: "too many messages wait to be read"}
}
