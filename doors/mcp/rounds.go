package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// In the version without sessions a question to the client is the answer to its call,
// and the client answers by calling again. The worker asks while the call runs: so the
// call continues between these requests, and waits.

// Bounds of calls that wait between two requests.
const (
	maxWaits   = 256             // of all callers, in fair shares
	answerTime = 5 * time.Minute // for the answer
	maxPosed   = 8               // questions of one answer
	posedTime  = 20 * time.Millisecond
)

// A posed question waits for the answer of a client.
type posed struct {
	method string
	params json.RawMessage
	answer chan json.RawMessage // takes one
	gone   <-chan struct{}      // closed when the question is abandoned
}

// A pollster asks the client of a call by the answers to its requests. It is a
// [commands.Asker].
type pollster struct {
	client capabilities
	posed  chan *posed
	over   sync.Once
	end    chan struct{} // closed when there are no further questions
}

func newPollster(client capabilities) *pollster {
	return &pollster{client: client, posed: make(chan *posed), end: make(chan struct{})}
}

// Answers implements [commands.Asker].
func (p *pollster) Answers(method string) bool { return p.client.answers(method) }

// answers reports whether a client can be asked by a method.
func (c capabilities) answers(method string) bool {
	return method == elicitation && c.forms || method == samplingMethod && c.models
}

var errNotAsked = errors.New("the client is not asked any more")

// Ask implements [commands.Asker].
func (p *pollster) Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	q := &posed{method: method, params: params, answer: make(chan json.RawMessage, 1), gone: ctx.Done()}
	select {
	case p.posed <- q:
	case <-p.end:
		return nil, errNotAsked
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case answer := <-q.answer:
		return answer, nil
	case <-p.end:
		return nil, errNotAsked
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stop ends the questions.
func (p *pollster) stop() { p.over.Do(func() { close(p.end) }) }

// A round is a call with questions to its client.
type round struct {
	work     *work
	pollster *pollster
	party    string
	tool     string
	count    int               // of questions so far
	open     map[string]*posed // that wait, by their keys
}

// rounds are the calls that wait for their clients between two requests, by the state that
// the client shows.
type rounds struct {
	places *fair.Semaphore

	mu     sync.Mutex
	closed bool
	open   map[string]*parkedRound
}

type parkedRound struct {
	*round
	who   fair.Party
	timer *time.Timer
}

func newRounds() *rounds {
	return &rounds{
		places: fair.New(fair.Options{What: "MCP calls that wait for their client", Capacity: maxWaits}),
		open:   make(map[string]*parkedRound),
	}
}

// park keeps a call until its client answers, and returns the state by which the client
// identifies it. It fails if too many calls wait.
func (rs *rounds) park(r *round, who *protocol.Principal) (state string, err error) {
	party := fair.Of(who)
	if full := rs.places.TryAcquire(party, 1); full != nil {
		return "", full
	}
	state = rand.Text()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closed {
		rs.places.Release(party, 1)
		return "", protocol.Errorf(protocol.ShuttingDown, "the bridge is shutting down")
	}
	kept := &parkedRound{round: r, who: party}
	kept.timer = time.AfterFunc(answerTime, func() {
		if late := rs.take(state, r.party, r.tool); late != nil {
			late.abandon(protocol.Errorf(protocol.TimedOut, "the client did not answer"))
		}
	})
	rs.open[state] = kept
	return state, nil
}

// take returns the call that waits with a state, nil if there is none of the party and the
// tool.
func (rs *rounds) take(state, party, tool string) *round {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	kept := rs.open[state]
	if kept == nil || kept.party != party || kept.tool != tool {
		return nil
	}
	kept.timer.Stop()
	delete(rs.open, state)
	rs.places.Release(kept.who, 1)
	return kept.round
}

// close ends all calls that wait, and takes no more.
func (rs *rounds) close() {
	rs.mu.Lock()
	rs.closed = true
	left := rs.open
	rs.open = make(map[string]*parkedRound)
	rs.mu.Unlock()
	for _, kept := range left {
		kept.timer.Stop()
		kept.abandon(protocol.Errorf(protocol.ShuttingDown, "the bridge is shutting down"))
		rs.places.Release(kept.who, 1)
	}
}

// abandon ends the call.
func (r *round) abandon(why error) {
	r.work.end(why)
	r.pollster.stop()
	<-r.work.done
}

// errState is the error for a state that no call of the client waits with.
func errState() error {
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: "requestState is of no call of yours of this tool that waits at this bridge: call again without it",
	}
}

// asksIn reports whether a call of a tool may be asked about by the answers to its
// requests.
func (a *asker) asksIn(tool *tools.Tool) bool {
	return tool.Asks && (a.client.forms || a.client.models)
}

// inRounds makes a call whose client may be asked meanwhile, or continues the call of a
// state. It returns the result, or the questions to the client.
func (d *Door) inRounds(ctx context.Context, box *tools.Toolbox, who asker, call *chat.ToolCall, state string, said map[string]json.RawMessage) (tools.Result, *Task, *inputForm, error) {
	var r *round
	if state == "" {
		p := newPollster(who.client)
		r = &round{pollster: p, party: party(who.env.Principal), tool: call.Name, open: make(map[string]*posed)}
		r.work = d.begin(tools.WithAsker(ctx, p), box, who.env, call)
	} else {
		if r = d.rounds.take(state, party(who.env.Principal), call.Name); r == nil {
			return tools.Result{}, nil, nil, errState()
		}
		r.work.tellTask(func(p tools.Progress) { tools.TellProgress(ctx, p) })
		r.hear(said)
	}
	takesTasks := who.client.tasks && d.opts.Tasks != nil && d.opts.Tasks.Usable(ctx, who.env)
	for len(r.open) == 0 {
		result, task, asked := r.work.within(ctx, d.patience(ctx, who), r.pollster.posed)
		if asked == nil {
			r.pollster.stop()
			switch {
			case task != nil && !takesTasks:
				result, task = goesOn(r.work.call, task), nil
			case task == nil && takesTasks:
				result, task = r.work.settled(ctx, &result)
			case result.Question != nil:
				result = d.opts.Keeper.Keep(ctx, who.env, r.work.call, result.Question)
			}
			return result, task, nil, nil
		}
		r.gather(asked)
	}
	form, err := d.pose(r, who)
	if err != nil { // the worker gets no answer, and the call continues
		for key := range r.open {
			delete(r.open, key)
		}
		r.pollster.stop()
		result, task, _ := r.work.within(ctx, d.patience(ctx, who), nil)
		return result, task, nil, nil
	}
	return tools.Result{}, nil, form, nil
}

// hear passes the answers of the client to their questions. Answers without a question
// are ignored.
func (r *round) hear(said map[string]json.RawMessage) {
	for key, q := range r.open {
		if answer, ok := said[key]; ok {
			q.answer <- answer
			delete(r.open, key)
			continue
		}
		select {
		case <-q.gone:
			delete(r.open, key)
		default:
		}
	}
}

// patience is the time after which a call continues as a task.
func (d *Door) patience(ctx context.Context, who asker) time.Duration {
	_, patient := ctx.Deadline()
	switch {
	case d.opts.Tasks != nil && who.client.tasks && d.opts.Tasks.Usable(ctx, who.env):
		return d.opts.Patience
	case d.opts.Tasks != nil && !patient && !who.progress && d.opts.Hold > 0:
		return d.opts.Hold
	}
	return protocol.MaxTimeout
}

// gather collects a question, and further ones within posedTime.
func (r *round) gather(first *posed) {
	timer := time.NewTimer(posedTime)
	defer timer.Stop()
	for q := first; ; {
		r.count++
		r.open[fmt.Sprint("question-", r.count)] = q
		if len(r.open) == maxPosed {
			return
		}
		select {
		case q = <-r.pollster.posed:
		case <-timer.C:
			return
		}
	}
}

// pose is the answer that asks the client.
func (d *Door) pose(r *round, who asker) (*inputForm, error) {
	form := &inputForm{
		ResultType: "input_required", Meta: sdk.Meta{sdk.MetaKeyServerInfo: d.implementation}, Inputs: make(map[string]inputRequest, len(r.open)),
	}
	for key, q := range r.open {
		form.Inputs[key] = inputRequest{q.method, q.params}
	}
	var err error
	form.State, err = d.rounds.park(r, who.env.Principal)
	return form, err
}
