package commands_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A loan is a call that has begun and has not ended.
type loan struct {
	ctx    context.Context
	call   *commands.Call
	params json.RawMessage
	done   func(json.RawMessage, error)
	room   *lent
}

// lent is the room of a loan.
type lent struct{ of string }

func (l *lent) Empty() { *l = lent{} }

// lending is a command whose calls are ended by the test.
type lending struct {
	*node
	plans commands.Plans
	freed atomic.Int64
	begun chan *loan
}

// allowing allows everything for a long time.
type allowing struct{ commands.AllowAll }

func (allowing) AuthorizeCall(*commands.Call, string, commands.Resource) error { return nil }
func (allowing) Epoch() uint64                                                 { return 1 }
func (allowing) AuthorizeUntil(c *commands.Call, _ string, _ commands.Resource) (time.Time, error) {
	return c.Deadline.Add(time.Hour), nil
}

func newLending(t *testing.T) *lending {
	l := &lending{begun: make(chan *loan, 1000)}
	o := commands.RouterOptions{Authorizer: allowing{}, Auditor: auditing{new(workshop)}}
	spec := commands.Spec{Name: "test.lend", Summary: "Test.", Effect: commands.Act, Action: "test:lend", Async: true}
	l.node = newNode(t, o, commands.NewPrepared(spec, func(_ context.Context, _ *commands.Call, p tool, done func(tool, error)) {
		done(p, nil)
	}, func(p tool) (commands.Prepared, bool) { return l, true }))
	learnt := make(chan *protocol.Response, 1)
	l.lend("first", `{}`, func(r *protocol.Response) { learnt <- lasting(r) })
	wantSaid(t, <-learnt, `{"name":"saw","params":{}}`)
	return l
}

func (l *lending) Target() commands.Resource { return commands.Resource{Type: "tool", ID: "saw"} }

func (l *lending) Begin(ctx context.Context, call *commands.Call, params json.RawMessage, done func(json.RawMessage, error)) bool {
	room, again := call.Room().(*lent)
	if !again {
		room = new(lent)
	}
	if room.of != "" {
		panic("the room is another's: " + room.of)
	}
	room.of = call.RequestID
	l.begun <- &loan{ctx, call, params, done, room}
	return true
}

func (l *lending) lend(id, params string, reply func(*protocol.Response), metadata ...string) {
	in := l.inbound(envelope(id, "test.lend", fmt.Sprintf(`{"name":"saw","params":%s}`, params), metadata...))
	in.Plans, in.Free = &l.plans, func() { l.freed.Add(1) }
	l.Submit(in, reply)
}

// end ends a loan as one of which nothing is kept.
func (o *loan) end() {
	result := fmt.Appendf(nil, `{"id":%q,"params":%s}`, o.call.RequestID, o.params)
	o.call.Leave(o.room)
	o.done(result, nil)
}

func nothing(*protocol.Response) {}

// TestCallsAreEmptyOnceNobodyLooksAtThem. A call that somebody may look at stays as
// it is: for good, unless the test says when it is let go.
func TestCallsAreEmptyOnceNobodyLooksAtThem(t *testing.T) {
	for name, test := range map[string]struct {
		use   func(l *lending, o *loan)
		empty bool
		let   func(o *loan)
	}{
		"nobody does":              {func(_ *lending, o *loan) { o.end() }, true, nil},
		"an error":                 {func(_ *lending, o *loan) { o.done(nil, context.Canceled) }, false, nil},
		"its handler may":          {func(_ *lending, o *loan) { o.done(json.RawMessage(`{}`), nil) }, false, nil},
		"somebody who holds it":    {func(_ *lending, o *loan) { o.call.Hold(); o.end() }, false, func(o *loan) { o.call.Release() }},
		"two who do":               {func(_ *lending, o *loan) { o.call.Hold(); o.call.Hold(); o.end(); o.call.Release() }, false, func(o *loan) { o.call.Release() }},
		"who waits for its end":    {func(_ *lending, o *loan) { _ = o.ctx.Done(); o.end() }, false, nil},
		"a context made of its":    {func(_ *lending, o *loan) { defer context.AfterFunc(o.ctx, func() {})(); o.end() }, false, nil},
		"who watches its end":      {func(_ *lending, o *loan) { watched(o); o.end() }, true, nil},
		"a repeat that has joined": {func(l *lending, o *loan) { l.lend("1", `{"n":1}`, nothing); o.end() }, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLending(t)
			answers := make(chan *protocol.Response, 1)
			l.lend("1", `{"n":1}`, func(r *protocol.Response) { answers <- lasting(r) })
			o := <-l.begun
			test.use(l, o)
			<-answers
			looks := func() bool {
				return o.call.Command == "" && o.call.RequestID == "" && o.room.of == "" && l.freed.Load() == 1
			}
			if looks() != test.empty {
				t.Errorf("%+v, %+v, freed %d", o.call.Command, o.room, l.freed.Load())
			}
			if test.let == nil {
				return
			}
			if test.let(o); !looks() {
				t.Errorf("let go: %+v, %+v, freed %d", o.call.Command, o.room, l.freed.Load())
			}
		})
	}
}

type ends struct{}

func (ends) Ended() {}

// watched has the end of a loan watched until before it.
func watched(o *loan) {
	var w commands.Watch
	o.ctx.(commands.Watchable).Watch(&w, ends{})
	w.Stop()
}

// TestNoCallIsTakenForAnother has calls end by their handlers, by deadlines, and by
// credentials that go bad, all at the same time, with repeats among them. Every
// answer must be the one to its request. The race detector finds who looks at a
// call that is used again.
func TestNoCallIsTakenForAnother(t *testing.T) {
	var enders sync.WaitGroup
	stop := make(chan struct{})
	t.Cleanup(func() { // after the router, which waits for handlers whose calls were answered at their deadlines
		close(stop)
		enders.Wait()
	})
	l := newLending(t)
	const callers, each = 8, 300
	var answered, right atomic.Int64
	for range 4 {
		enders.Go(func() {
			for {
				select {
				case o := <-l.begun:
					o.call.Emit("test.progress", 1)
					o.end()
				case <-stop:
					return
				}
			}
		})
	}
	enders.Go(func() { // somebody else's credential ends again and again
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				l.Fail(func(*protocol.Principal) error {
					if n%16 == 0 {
						return wentBad()
					}
					return nil
				})
			}
		}
	})
	var submitting sync.WaitGroup
	for caller := range callers {
		submitting.Go(func() {
			for i := range each {
				id, params := fmt.Sprintf("%d-%d", caller, i), fmt.Sprintf(`{"n":%d}`, i)
				timeout := `"timeout":30000`
				if i%7 == 0 {
					timeout = `"timeout":1`
				}
				want := fmt.Sprintf(`{"id":%q,"params":%s}`, id, params)
				usual := fmt.Sprintf(`{"name":"saw","params":%s}`, params) // of a form that is not known yet
				for range 1 + i%3/2 {                                      // a third is sent twice
					l.lend(id, params, func(r *protocol.Response) {
						answered.Add(1)
						if r.ID != id {
							t.Errorf("%s got the answer to %s", id, r.ID)
						}
						if r.Err == nil && string(r.Result) == want {
							right.Add(1)
						} else if r.Err == nil && string(r.Result) != usual {
							t.Errorf("%s got %s", id, r.Result)
						}
					}, timeout)
				}
			}
		})
	}
	submitting.Wait()
	const all = callers * (each + each/3)
	eventually.Holds(t, "all are answered", func() bool { return answered.Load() == all }, func() any { return answered.Load() })
	if right.Load() == 0 || l.freed.Load() == 0 {
		t.Errorf("%d of %d right, %d used again", right.Load(), answered.Load(), l.freed.Load())
	}
}
