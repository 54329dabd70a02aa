package ask

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A Request is a command for an agent on behalf of a waiting caller, with the memory
// for asking. It serves one [Service.Ask].
type Request struct {
	Command    string
	Params     json.RawMessage
	Call       *commands.Call
	Callee     Callee // nil for a single agent whose result is not checked
	Idempotent bool   // a second run has no further effect
	Listener   Listener
	Began      time.Time // current time, if the caller has it

	ctx   context.Context
	tried []protocol.AgentID
	last  *failure
	first attempt
	alone bool
}

// Alone reports, at the outcome, whether only the holders of the call still refer to
// the request: so it is for one that was asked once over MQTT.
func (r *Request) Alone() bool { return r.alone }

// A Callee is the target of a request, whichever agent it goes to.
type Callee interface {
	// Others returns the peers to ask after the failure of those tried.
	Others(tried []protocol.AgentID) []Peer
	// CheckResult returns the fault of a result, best as an [InvalidResult].
	CheckResult(result json.RawMessage) error
}

// A Guide is a [Callee] with the way to its peer.
type Guide interface {
	// Way is the way to the peer of the first attempt now, nil if it has to be looked
	// up.
	Way() *Way
}

// Ask sends a request to the least busy of some peers, and to another one after a
// failure that permits a repetition, see the table in the registry's DESIGN.md. If ctx
// ends first, the request is cancelled at the peer. The listener gets the outcome once,
// possibly before Ask returns; after a panic of its own it gets an error.
//
// No goroutine waits for the answer: the goroutine that brings the end of an exchange
// continues the request, mostly the reader of the agent's connection.
func (s *Service) Ask(ctx context.Context, r *Request, peers []Peer) {
	r.ctx = ctx
	s.try(&r.first, r, peers)
}

// ended takes the end of an attempt.
func (r *Request) ended(a *attempt, result json.RawMessage, f *failure) {
	if f == nil {
		if f = r.check(a.target(), result); f != nil {
			a.service.unfit(a.Agent, f)
		}
	}
	switch {
	case f == nil:
		r.Listener.Hear(Notice{Kind: Answered, Agent: a.agentID(), Data: result})
	case a.Agent != nil && f.mayRepeat(r.Idempotent):
		r.tried, r.last = append(r.tried, a.agentID()), f
		r.again(a.service)
	default:
		r.fail(f)
	}
}

// again asks a peer that was not tried yet.
func (r *Request) again(s *Service) {
	var peers []Peer
	if r.Callee != nil {
		peers = r.Callee.Others(r.tried)
	}
	if len(peers) == 0 {
		r.fail(r.last)
		return
	}
	s.metrics.retries.Inc()
	s.try(new(attempt), r, peers)
}

func (r *Request) fail(f *failure) {
	r.Listener.Hear(Notice{Kind: Failed, Err: f.final(r.Idempotent), Open: f.open})
}

func (r *Request) check(t target, result json.RawMessage) *failure {
	if r.Callee == nil {
		return nil
	}
	if err := r.Callee.CheckResult(result); err != nil {
		return t.invalid(err)
	}
	return nil
}
