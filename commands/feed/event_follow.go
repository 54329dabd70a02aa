package feed

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var eventFollow = commands.Spec{
	Name:        "event.follow",
	Summary:     "Follow what happens: agents that come and go, tasks, approvals, workflows, Caps, scenes.",
	Effect:      commands.Read,
	Action:      "event:follow",
	Streams:     true,
	Abandonable: true,
	Example:     `{"families":["agent","task","approval"],"stream":true}`,
}

// maxBatch bounds the events that are looked at, and handed on, at once.
const maxBatch = 256

// FollowParams are the params of event.follow.
type FollowParams struct {
	Families []string `json:"families,omitempty" len:"1-32" each:"1-32" doc:"only events of these families, such as agent, skill, task, approval, cap, scene, security; all that the caller may hear if absent"`
	After    string   `json:"after,omitempty" len:"1-64" doc:"cursor of the last event that is known; from now on if absent"`
	Stream   bool     `json:"stream,omitempty" doc:"send the events as they come, as if metadata.events asked for it; without it the command returns as soon as there are events"`
}

// FollowResult is the result of event.follow.
type FollowResult struct {
	Cursor string    `json:"cursor" doc:"entry to go on from, as after"`
	Missed bool      `json:"missed,omitempty" doc:"events were missed since after: ask anew for what is shown"`
	Events []Happens `json:"events,omitempty" doc:"the events, the oldest first; absent when they were sent as they came"`
}

// A Happens is one event, with the place behind it.
type Happens struct {
	Cursor string          `json:"cursor" doc:"place behind this event"`
	Family string          `json:"family" doc:"family of the event"`
	Topic  string          `json:"topic" doc:"topic that it was published on"`
	Event  json.RawMessage `json:"event" doc:"event envelope, as it was published"`
}

// A follower is one call of event.follow.
type follower struct {
	call   *commands.Call
	params FollowParams
	until  time.Time
	done   func(FollowResult, error)

	mu     sync.Mutex
	over   bool
	at     uint64    // number of the last event that it was let have, or that is not for it
	missed bool      // events were missed; the follower is still to be told
	told   time.Time // the time of the last message
	unhook func() bool
}

// follow begins to hand events to a caller. It ends shortly before the time of the
// call does, so that the last answer has the cursor to go on from.
func (f *Feed) follow(ctx context.Context, call *commands.Call, p FollowParams, done func(FollowResult, error)) {
	now := time.Now()
	left := call.Deadline.Sub(now)
	w := &follower{call: call, params: p, until: now.Add(left - min(left/4, 2*time.Second)), done: done, told: now, at: f.latest()}
	if p.After != "" {
		if at, ok := f.position(p.After); ok {
			w.at = at
		} else {
			w.missed = true
		}
	}
	f.mu.Lock()
	f.followers[w] = struct{}{}
	f.mu.Unlock()
	w.mu.Lock()
	w.unhook = context.AfterFunc(ctx, func() { w.end(f, context.Cause(ctx)) })
	w.mu.Unlock()
	if p.Stream {
		w.emit(f, nil) // confirms the subscription at once, with its cursor
	}
	f.signal()
}

// serve lets the follower have a batch of new events, and reports whether there
// may be more.
func (w *follower) serve(f *Feed, now time.Time) (more bool) {
	if err := f.Check(w.call.Principal); err != nil {
		w.end(f, err)
		return false
	}
	w.mu.Lock()
	at := w.at
	w.mu.Unlock()
	events, missed := f.since(at)
	heard := w.choose(f, events)
	w.mu.Lock()
	if len(events) > 0 {
		w.at = events[len(events)-1].number
	}
	w.missed = w.missed || missed
	tell := len(heard) > 0 || w.missed
	quiet := now.Sub(w.told) >= f.Beat
	w.mu.Unlock()
	switch {
	case !w.params.Stream && (tell || now.After(w.until)):
		w.finish(f, heard, nil)
		return false
	case w.params.Stream && (tell || quiet):
		w.emit(f, heard)
	}
	if now.After(w.until) {
		w.finish(f, nil, nil)
		return false
	}
	return len(events) == maxBatch
}

// choose keeps the events that are for the follower. Whether it may listen to a
// topic is asked once for a batch.
func (w *follower) choose(f *Feed, events []event) []Happens {
	who := w.call.Principal
	party, topics := who.Party(), make(map[string]bool)
	var heard []Happens
	for _, e := range events {
		if len(w.params.Families) > 0 && !slices.Contains(w.params.Families, e.family) {
			continue
		}
		if !e.to.Has(&party) && !(who.Unbounded() && e.to.HasUnbounded()) {
			continue
		}
		may, asked := topics[e.topic]
		if !asked {
			may = f.MayHear(who, e.topic)
			topics[e.topic] = may
		}
		if may {
			heard = append(heard, Happens{Cursor: f.cursor(e.number), Family: e.family, Topic: e.topic, Event: e.body})
		}
	}
	return heard
}

// emit sends events to the follower: feed.events, of which data is like the
// result of the command.
func (w *follower) emit(f *Feed, heard []Happens) {
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return
	}
	result := FollowResult{Cursor: f.cursor(w.at), Missed: w.missed, Events: heard}
	w.missed, w.told = false, time.Now()
	w.mu.Unlock()
	w.call.Emit("feed.events", result)
}

func (w *follower) end(f *Feed, why error) { w.finish(f, nil, why) }

// finish answers the call, once.
func (w *follower) finish(f *Feed, heard []Happens, err error) {
	f.mu.Lock()
	delete(f.followers, w)
	f.mu.Unlock()
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return
	}
	w.over = true
	result, unhook := FollowResult{Cursor: f.cursor(w.at), Missed: w.missed, Events: heard}, w.unhook
	w.mu.Unlock()
	if unhook != nil {
		unhook()
	}
	if err != nil {
		w.done(FollowResult{}, protocol.AsError(err))
		return
	}
	w.done(result, nil)
}
