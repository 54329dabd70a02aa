package app

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/cluster/relay"
	"github.com/aibridge/aibridge/protocol"
)

// Errands are the tasks that bridges of a cluster have each other do: an act on work
// under way is done where the work is. The right to it is checked where the request came
// in.
type errands struct {
	voice *relay.Voice
	does  map[string]func(ctx context.Context, with json.RawMessage) (any, error) // set before the relay starts
	ctx   context.Context
	stop  context.CancelFunc

	mu      sync.Mutex
	last    uint64
	open    map[uint64]*errand
	stopped bool
	running sync.WaitGroup
}

// An errand is something that another bridge does for this one.
type errand struct {
	to   relay.Node
	done chan errandNews
}

// errandNews are the messages of bridges about an errand: the order, or its outcome.
type errandNews struct {
	Number  uint64          `json:"number"` // counted by the bridge that ordered it
	Do      string          `json:"do,omitempty"`
	Timeout int64           `json:"timeout_ms,omitempty"`
	With    json.RawMessage `json:"with,omitempty"` // or the result
	Code    protocol.Code   `json:"code,omitempty"` // of a failure
	Message string          `json:"message,omitempty"`
	Details map[string]any  `json:"details,omitempty"`
}

// newErrands returns the errands of a bridge whose relay has not started yet.
func newErrands(r *relay.Relay) *errands {
	e := &errands{does: make(map[string]func(context.Context, json.RawMessage) (any, error)), open: make(map[uint64]*errand)}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.voice = r.Join(errandsPart, e)
	return e
}

// have has another bridge do something, and reads the result. That bridge may do it
// although it is not heard of: then the error is 4012.
func (e *errands) have(ctx context.Context, n cluster.Node, do string, with, result any) error {
	body, err := json.Marshal(with)
	if err != nil {
		return err
	}
	news := errandNews{Do: do, With: body}
	if deadline, ok := ctx.Deadline(); ok {
		news.Timeout = time.Until(deadline).Milliseconds()
	}
	asked := &errand{to: relay.Node(n), done: make(chan errandNews, 1)}
	e.mu.Lock()
	e.last++
	news.Number = e.last
	e.open[news.Number] = asked
	e.mu.Unlock()
	defer e.forget(news.Number)
	if !e.say(asked.to, &news) {
		return protocol.Errorf(protocol.TargetUnavailable, "bridge %q, which does the work, cannot be reached", n.ID).With("bridge_id", n.ID)
	}
	select {
	case came := <-asked.done:
		if came.Code != "" {
			return &protocol.Error{Code: came.Code, Message: came.Message, Details: came.Details}
		}
		return json.Unmarshal(came.With, result)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// askedFor is the time that a bridge which asks all others waits for each.
const askedFor = 2 * time.Second

// haveAll has all other bridges do something, and reads their results. silent are
// those that did not do it in time.
func haveAll[T any](ctx context.Context, r *relaying, do string, with any) (results map[string]T, silent []string) {
	ctx, cancel := context.WithTimeout(ctx, askedFor)
	defer cancel()
	results = make(map[string]T)
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, m := range r.members.Members() {
		if m.ID == r.members.Self().ID || !takesRelayed(m) {
			continue
		}
		asking.Go(func() {
			var result T
			err := r.errands.have(ctx, m.Node, do, with, &result)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.log.Warn("another bridge did not tell what it was asked for", "bridge", m.ID, "errand", do, "error", err)
				silent = append(silent, m.ID)
				return
			}
			results[m.ID] = result
		})
	}
	asking.Wait()
	slices.Sort(silent)
	return results, silent
}

func (e *errands) forget(number uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open, number)
}

func (e *errands) say(to relay.Node, news *errandNews) bool {
	body, err := json.Marshal(news)
	return err == nil && e.voice.Say(to, body)
}

// Said implements [relay.Part].
func (e *errands) Said(from relay.Node, body []byte) {
	var news errandNews
	if json.Unmarshal(body, &news) != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if news.Do == "" {
		if asked := e.open[news.Number]; asked != nil && asked.to == from {
			asked.end(news)
		}
		return
	}
	if !e.stopped {
		e.running.Go(func() { e.do(from, &news) })
	}
}

// end reports the outcome of an errand, once.
func (a *errand) end(news errandNews) {
	select {
	case a.done <- news:
	default:
	}
}

// do does something for another bridge.
func (e *errands) do(from relay.Node, news *errandNews) {
	ctx, cancel := e.ctx, context.CancelFunc(func() {})
	if news.Timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(news.Timeout)*time.Millisecond)
	}
	defer cancel()
	came := errandNews{Number: news.Number}
	does := e.does[news.Do]
	result, err := any(nil), error(protocol.Errorf(protocol.UnsupportedVersion, "the bridge that does the work does not know %q", news.Do))
	if does != nil {
		result, err = does(ctx, news.With)
	}
	if err == nil {
		came.With, err = json.Marshal(result)
	}
	if failure := protocol.AsError(err); failure != nil {
		came.Code, came.Message, came.Details = failure.Code, failure.Message, failure.Details
	}
	e.say(from, &came)
}

// Gone implements [relay.Part].
func (e *errands) Gone(from relay.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, asked := range e.open {
		if asked.to == from {
			asked.end(errandNews{Code: protocol.OutcomeUnknown, Message: "the bridge that does the work has ended", Details: map[string]any{"bridge_id": from.ID}})
		}
	}
}

// Nothing is told to all.

func (e *errands) Everything(func([]byte)) {}
func (e *errands) Told(relay.Node, []byte) {}
func (e *errands) Began(relay.Node)        {}
func (e *errands) Ended(relay.Node)        {}

// close ends the errands done for other bridges, and waits for them.
func (e *errands) close(ctx context.Context) error {
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	e.stop()
	done := make(chan struct{})
	go func() { e.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
