package effects

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// State is the state of a deed.
type State string

// The states of a deed.
const (
	Running State = "running"
	Done    State = "done"
	NotDone State = "not_done" // so it was settled; the next call is made
	Unknown State = "unknown"  // it may have been done
)

// A Record is a deed, as stored. It is immutable.
type Record struct {
	ID         string                `json:"id"` // of the deed in its space
	Space      protocol.SpaceID      `json:"space_id"`
	Skill      protocol.SkillID      `json:"skill_id"`
	Capability protocol.CapabilityID `json:"capability_id"`
	Key        string                `json:"key"` // in words
	State      State                 `json:"state"`
	By         protocol.Party        `json:"by"`         // whose call it is
	Request    string                `json:"request_id"` // of that call
	Trace      string                `json:"trace_id,omitempty"`
	Window     int64                 `json:"window_ms"`
	Question   json.RawMessage       `json:"question,omitempty"` // params of the read that settles it, nil if none does
	Owner      string                `json:"owner,omitempty"`    // process that makes the call, "" if there is only one
	Token      string                `json:"token"`              // of the call; no other has it
	Began      int64                 `json:"began_at"`           // Unix milliseconds, as the following
	Ended      int64                 `json:"ended_at,omitempty"`
	Until      int64                 `json:"until"`              // it is forgotten then, unless it runs
	Agent      protocol.AgentID      `json:"agent_id,omitempty"` // the agent that did it, or may have
	Data       json.RawMessage       `json:"data,omitempty"`     // result of the capability, unless it is long
	Why        string                `json:"why,omitempty"`      // the outcome is unknown, or how it was settled
	SettledBy  string                `json:"settled_by,omitempty"`
}

// KeptFor is the party whose budget of records the deed uses.
func (r *Record) KeptFor() protocol.Party { return r.By }

// Bounds of a record.
const (
	maxData  = 4 << 10        // bytes of a result
	maxDoubt = 24 * time.Hour // that a deed is barred for whose outcome can be asked for
)

func (r *Record) key() string { return string(r.Space) + "/" + r.ID }

// over reports whether a call that comes now is another deed.
func (r *Record) over(now time.Time) bool { return r.State != Running && now.UnixMilli() >= r.Until }

// done is the deed after its call has had an answer.
func (r *Record) done(agent protocol.AgentID, data json.RawMessage, now time.Time) *Record {
	d := *r
	d.State, d.Agent, d.Ended, d.Why = Done, agent, now.UnixMilli(), ""
	d.Until = d.Ended + r.Window
	if d.Data = nil; len(data) <= maxData {
		d.Data = data
	}
	return &d
}

// doubtful is the deed after its call ended without a known outcome.
func (r *Record) doubtful(agent protocol.AgentID, why string, now time.Time) *Record {
	d := *r
	d.State, d.Ended, d.Why, d.Data = Unknown, now.UnixMilli(), why, nil
	if agent != "" {
		d.Agent = agent
	}
	lasts := r.Window
	if r.Question != nil {
		lasts = max(lasts, maxDoubt.Milliseconds())
	}
	d.Until = d.Ended + lasts
	return &d
}

// settled is a deed of unknown outcome with the finding of a person about it.
func (r *Record) settled(done bool, by, why string, now time.Time) *Record {
	d := *r
	d.State, d.SettledBy, d.Why, d.Ended = NotDone, by, why, now.UnixMilli()
	if done {
		d.State = Done
	}
	d.Until = d.Ended + r.Window
	return &d
}

// A View is a deed as callers see it.
type View struct {
	ID         string                `json:"effect_id" doc:"id of the effect in its space"`
	Skill      protocol.SkillID      `json:"skill_id" doc:"id of the skill"`
	Capability protocol.CapabilityID `json:"capability_id" doc:"id of the capability"`
	Key        string                `json:"key" doc:"effect key of the capability, with the values of the call"`
	State      State                 `json:"state" enum:"running,done,not_done,unknown" doc:"running: a call is under way; unknown: it may have been done, and a second call gets 4012 until somebody has found out"`
	By         string                `json:"by" doc:"id of the principal whose call it is"`
	BeganAt    int64                 `json:"began_at" doc:"time at which the call was made, Unix milliseconds"`
	EndedAt    int64                 `json:"ended_at,omitempty" doc:"time at which it ended or was settled, Unix milliseconds; absent while it runs"`
	Until      int64                 `json:"expires_at" doc:"time at which it is forgotten, Unix milliseconds; a call after that is another deed"`
	AgentID    protocol.AgentID      `json:"agent_id,omitempty" doc:"id of the agent that did it or may have done it, if it is known"`
	Why        string                `json:"why,omitempty" doc:"reason why the outcome is unknown, or how it was settled"`
	SettledBy  string                `json:"settled_by,omitempty" doc:"id of who settled it; bridge if the capability that reconciles was asked"`
}

// View shows the deed.
func (r *Record) View() View {
	return View{
		ID: r.ID, Skill: r.Skill, Capability: r.Capability, Key: r.Key, State: r.State, By: r.By.ID, BeganAt: r.Began,
		EndedAt: r.Ended, Until: r.Until, AgentID: r.Agent, Why: r.Why, SettledBy: r.SettledBy,
	}
}

// ID is the id of a deed in its space: of a capability of a skill, and the
// identity of its key.
func ID(skill protocol.SkillID, capability protocol.CapabilityID, identity string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %s", skill, capability, identity))
	return hex.EncodeToString(sum[:16])
}
