// Package southbound answers requests in the southbound dialect
// (docs/protocol.md#the-southbound-dialect): it translates them to commands,
// tries again what may go better the next time, and translates back.
package southbound

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// operations maps each operation to its command.
var operations = map[string]string{
	"execute-llm-query":          "llm.query",
	"execute-llm-advanced-query": "llm.advanced-query",
	"get-llm-status":             "llm.status",
	"list-llm-models":            "llm.models",
}

// A Router runs commands. *commands.Router is one.
type Router interface {
	Submit(in commands.Inbound, reply func(*protocol.Response))
}

// Options configure a [Translator]. Router is needed.
type Options struct {
	Router Router
	Self   protocol.SouthboundPeer // the source of answers
	Limits protocol.Limits         // of requests
	Now    func() time.Time
}

// A Translator takes southbound requests.
type Translator struct{ opts Options }

// New makes a translator.
func New(o Options) *Translator {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Translator{o}
}

// Handle answers one request. When ctx ends it returns at once; nobody waits
// for the answer then.
func (t *Translator) Handle(ctx context.Context, in commands.Inbound) *protocol.SouthboundResponse {
	in.Audience = audience{ctx}
	answered := make(chan *protocol.SouthboundResponse, 1)
	t.Submit(in, func(r *protocol.SouthboundResponse) {
		r.Payload = bytes.Clone(r.Payload)
		answered <- r
	})
	select {
	case r := <-answered:
		return r
	case <-ctx.Done():
		return &protocol.SouthboundResponse{Timestamp: t.opts.Now(), Source: t.opts.Self, Err: protocol.AsError(ctx.Err())}
	}
}

// Refuse answers a request that is not run, whatever can be read of it.
func (t *Translator) Refuse(body []byte, err *protocol.Error) *protocol.SouthboundResponse {
	req, _ := protocol.DecodeSouthbound(body, t.opts.Limits)
	answer := req.Answer(t.opts.Self, t.opts.Now())
	answer.Err = err
	return answer
}

type audience struct{ ctx context.Context }

// Gone implements [commands.Audience].
func (a audience) Gone() context.Context { return a.ctx }

// Submit takes a request, whose body is southbound, and answers it by reply,
// which is called once and must not block; the response is good until it
// returns. Submit does not block, and it does not keep the body.
func (t *Translator) Submit(in commands.Inbound, reply func(*protocol.SouthboundResponse)) {
	req, err := protocol.DecodeSouthbound(in.Body, t.opts.Limits)
	x := &exchange{Translator: t, in: in, req: req, reply: reply}
	x.in.Body = nil // it is the caller's
	if err == nil {
		err = x.find()
	}
	if err != nil {
		x.tell(&protocol.Response{Err: protocol.AsError(err)})
		return
	}
	timeout := req.Timeout
	if in.Expiry > 0 {
		timeout = min(timeout, in.Expiry)
	}
	x.deadline = t.opts.Now().Add(timeout)
	x.try()
}

// An exchange is a request until it is answered. Its attempts come one after
// the other.
type exchange struct {
	*Translator
	in       commands.Inbound
	req      *protocol.SouthboundRequest
	reply    func(*protocol.SouthboundResponse)
	command  string
	deadline time.Time
	attempt  int         // that runs, from 1
	heard    atomic.Bool // an event went out
}

func (x *exchange) find() error {
	command, ok := operations[x.req.Operation]
	if !ok {
		return protocol.Errorf(protocol.UnknownCommand, "unknown operation %.100q", x.req.Operation).
			With("param_name", "operation").With("supported", slices.Sorted(maps.Keys(operations)))
	}
	x.command = command
	if command == "llm.status" || command == "llm.models" { // they take nothing, whatever was sent
		x.req.Payload = []byte("{}")
	}
	return nil
}

func (x *exchange) try() {
	x.attempt++
	in := x.in
	in.Body = x.envelope()
	in.Expiry = 0 // is in the timeout
	if in.Emit != nil {
		in.Emit = x.emit
	}
	x.opts.Router.Submit(in, x.answered)
}

// envelope is the request of the running attempt. Each has an id of its own,
// the same for the same command of the same caller, so that who repeats a
// command joins the attempts that run.
func (x *exchange) envelope() []byte {
	r := protocol.Request{
		Version: protocol.Version,
		ID:      attemptID(x.req.CommandID, x.attempt),
		Command: x.command,
		Params:  x.req.Payload,
		Metadata: protocol.Metadata{
			SenderID: x.req.Source.ID, TraceID: x.req.TraceID, Priority: x.req.Priority,
			Timeout: max(x.deadline.Sub(x.opts.Now()), time.Millisecond),
		},
	}
	return r.Append(nil) // without a timestamp: the time of arrival counts
}

// attemptID is the id of an attempt at a command.
func attemptID(command string, attempt int) string {
	if attempt == 1 {
		return command
	}
	suffix := fmt.Sprintf("~%d", attempt)
	if utf8.RuneCountInString(command)+len(suffix) > protocol.MaxIDLength {
		sum := sha256.Sum256([]byte(command))
		command = hex.EncodeToString(sum[:16])
	}
	return command + suffix
}

// emit passes an event on. The listener knows of one command only.
func (x *exchange) emit(e *protocol.Event) {
	x.heard.Store(true)
	told := *e
	told.ID = x.req.CommandID
	x.in.Emit(&told)
}

// answered takes the outcome of an attempt.
func (x *exchange) answered(r *protocol.Response) {
	wait, again := x.again(r.Err)
	if !again {
		x.tell(r)
		return
	}
	x.in.Batched = false // whoever would have flushed is gone by then
	time.AfterFunc(wait, x.try)
}

const (
	firstPause  = 200 * time.Millisecond // or what the error says; doubled with every attempt, with jitter
	longestWait = 10 * time.Second       // for the next attempt; who is told to wait longer is told so
)

// again reports whether another attempt is to be made, and when.
func (x *exchange) again(err *protocol.Error) (wait time.Duration, again bool) {
	if err == nil || x.attempt > x.req.RetryCount || x.heard.Load() || !repeatable(err) {
		return 0, false
	}
	if x.in.Audience != nil {
		if gone := x.in.Audience.Gone(); gone != nil && gone.Err() != nil {
			return 0, false
		}
	}
	least := max(firstPause, err.RetryAfter())
	wait = least << (x.attempt - 1)
	wait = min(wait+rand.N(wait/4), max(least, longestWait))
	return wait, least <= longestWait && x.opts.Now().Add(wait).Before(x.deadline)
}

// repeatable reports whether an error may go away by itself. Of those that the
// dialect wants tried again, some will not: nothing is configured, the bridge
// stops, the caller has cancelled, the provider refuses the bridge's key.
func repeatable(err *protocol.Error) bool {
	switch {
	case err.Code == protocol.Cancelled, err.Code == protocol.ShuttingDown, err.Code == protocol.LLMRefused, err.Details["reason"] == "unconfigured":
		return false
	}
	return protocol.SouthboundCodeOf(err).Retried()
}

// tell answers the request.
func (x *exchange) tell(r *protocol.Response) {
	answer := x.req.Answer(x.opts.Self, x.opts.Now())
	answer.Attempts, answer.Err, answer.Warnings = x.attempt, r.Err, r.Metadata.Warnings
	if at := x.req.Timestamp; !at.IsZero() && x.opts.Now().Sub(at) > x.req.Timeout+time.Minute {
		answer.Warnings = append(slices.Clip(answer.Warnings), "the timestamp is older than the timeout; the time of arrival was taken instead")
	}
	if r.Err == nil {
		answer.Payload = r.Result
	}
	x.reply(answer)
}
