package mcp

import (
	"context"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/protocol"
)

// lastStateful is the version that a single message is of which names none.
const lastStateful = "2025-11-25"

// A Message is one JSON-RPC message of another transport than HTTP, such as a topic of
// MQTT. It is independent of others: there is no session.
type Message struct {
	Principal *protocol.Principal
	Client    string // id of the client, unique for its principal, for cancellations
	Body      []byte
	// Reply sends a message to the client: notifications about the call, and then its
	// answer, if the message is a call. It must not block for long.
	Reply func(body []byte)
}

// Take answers one message, and returns when that is done.
func (d *Door) Take(ctx context.Context, m Message) {
	seen := peek(m.Body)
	switch {
	case len(m.Body) > d.opts.MaxBytes:
		m.refuse(jsonrpc.ID{}, protocol.Errorf(protocol.PayloadTooLarge, "requests may have %d bytes", d.opts.MaxBytes).With("limit", d.opts.MaxBytes))
		return
	case seen.malformed:
		m.Reply(rpcError(jsonrpc.ID{}, jsonrpc.CodeParseError, "the message is not JSON", nil))
		return
	}
	ctx, done, err := d.requests.begin(ctx, m.Principal)
	if err != nil {
		m.refuse(seen.id, err)
		return
	}
	defer done()
	if seen.fault != nil {
		m.Reply(rpcError(seen.id, seen.fault.code, seen.fault.text, nil))
		return
	}
	decoded, failed := jsonrpc.DecodeMessage(m.Body)
	request, ok := decoded.(*jsonrpc.Request)
	switch {
	case failed != nil || !ok:
		m.Reply(rpcError(seen.id, jsonrpc.CodeInvalidRequest, "the message is no JSON-RPC request", nil))
	case !request.IsCall():
		if request.Method == cancelledMethod {
			d.calls.cancel(m.caller(), idOf(seen.Params.RequestID))
		}
	case seen.onTasks() && d.serves(&seen, seen.Params.Meta.Version >= firstStateless):
		m.Reply(d.aboutTask(ctx, &m, &seen))
	case !slices.Contains(methods, request.Method) || slices.Contains(listening, request.Method):
		m.Reply(rpcError(request.ID, jsonrpc.CodeMethodNotFound, "there is no method "+strconv.Quote(bounded(request.Method, 64))+" here", nil))
	default:
		d.call(ctx, m, request, &seen)
	}
}

// Refuse answers a message, if it is a call, with an error of the bridge's.
func (d *Door) Refuse(m Message, err *protocol.Error) {
	if id := peek(m.Body).id; id.IsValid() {
		m.refuse(id, err)
	}
}

// Refusal is the answer to a call with an error of the bridge's.
func Refusal(call []byte, err *protocol.Error) []byte {
	return rpcError(peek(call).id, rpcCode(err), err.Message, errorData(err))
}

func (m *Message) refuse(id jsonrpc.ID, err *protocol.Error) {
	m.Reply(rpcError(id, rpcCode(err), err.Message, errorData(err)))
}

func (m *Message) caller() string { return party(m.Principal) + "\x00" + m.Client }

// aboutTask is the answer to a message about a task.
func (d *Door) aboutTask(ctx context.Context, m *Message, seen *message) []byte {
	if !known(seen.Params.Meta.Version) || !seen.introduced() {
		return rpcError(seen.id, jsonrpc.CodeInvalidParams, "params._meta must have a version of the protocol that there is here, and the capabilities of the client", nil)
	}
	result, err := d.onTask(ctx, d.asker(m.Principal, seen, nil), seen)
	if err != nil {
		return answerError(seen, err)
	}
	return rpcResult(seen.id, taskResult(result))
}

// call runs one call with the SDK's server, in a session of its own.
func (d *Door) call(ctx context.Context, m Message, request *jsonrpc.Request, seen *message) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	key := m.caller() + "\x00" + seen.text()
	if !d.calls.enter(key, cancel) {
		m.Reply(rpcError(request.ID, jsonrpc.CodeInvalidRequest, "a call with this id is under way", nil))
		return
	}
	defer d.calls.leave(key)

	version := seen.Params.Meta.Version
	if seen.plain() && (version < firstStateless || known(version) && seen.introduced()) {
		if body, _ := d.direct(ctx, d.asker(m.Principal, seen, nil), seen, version >= firstStateless); ctx.Err() == nil {
			m.Reply(body)
		}
		return
	}
	ctx = context.WithValue(ctx, carrierKey{}, ctx)
	single := newSingle(ctx, request, m.Reply)
	state := &sdk.ServerSessionState{}
	if version < firstStateless && request.Method != initializeMethod {
		state.InitializeParams = &sdk.InitializeParams{ProtocolVersion: lastStateful}
		state.InitializedParams = &sdk.InitializedParams{}
		state.LogLevel = "warning"
	}
	session, err := d.guests.of(m.Principal).server.Connect(ctx, single, &sdk.ServerSessionOptions{State: state})
	if err != nil {
		m.refuse(request.ID, protocol.AsError(err))
		return
	}
	select {
	case <-single.answered:
	case <-ctx.Done():
	}
	_ = session.Close() // when the call is done
}

// carrierKey is the key of the context of a call's transport: the SDK's handlers have
// another context, which does not end with this one.
type carrierKey struct{}

// carried is a context that also ends with the door, and with the one that its
// call came with. The SDK's does not end with the request that it has the values of, so it
// is of none.
func (d *Door) carried(ctx context.Context) (context.Context, func()) {
	carrier, _ := ctx.Value(carrierKey{}).(context.Context)
	ctx = context.WithValue(ctx, requestKey{}, (*request)(nil))
	ctx, cancel := context.WithCancel(ctx)
	unwatch := context.AfterFunc(d.closing, cancel)
	if carrier == nil {
		return ctx, func() { unwatch(); cancel() }
	}
	stop := context.AfterFunc(carrier, cancel)
	return ctx, func() { unwatch(); stop(); cancel() }
}
