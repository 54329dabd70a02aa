package dispatch

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// A State is the state of a member.
type State string

// The states of a member. An offline member is asked when it comes back; at the
// deadline it stays offline.
const (
	Pending   State = "pending"
	Accepted  State = "accepted"
	Running   State = "running"
	OK        State = "ok"
	Failed    State = "failed"
	Rejected  State = "rejected"
	TimedOut  State = "timed_out"
	Offline   State = "offline"
	Denied    State = "denied"
	Cancelled State = "cancelled"
)

// A Status is the state of a whole dispatch.
type Status string

// The outcomes. Only InProgress changes.
const (
	InProgress Status = "running"
	Complete   Status = "complete"
	Partial    Status = "partial"
	Fruitless  Status = "failed"
	Called     Status = "cancelled"
)

// A Command is the invocation that the members of a group get.
type Command struct {
	Space      protocol.SpaceID      `json:"space_id"`
	Cap        protocol.CapID        `json:"cap_id"`
	Group      protocol.GroupID      `json:"group_id"`
	Capability protocol.CapabilityID `json:"capability_id"`
	Params     json.RawMessage       `json:"params"`              // an object
	Extension  json.RawMessage       `json:"extension,omitempty"` // vendor data of the request, nil without any
	TraceID    string                `json:"trace_id,omitempty"`
	Priority   protocol.Priority     `json:"priority"`
}

// A Dispatch is the record that is stored before the first member is asked. It
// is immutable.
type Dispatch struct {
	Command

	ID         protocol.TaskID  `json:"task_id"`
	Principal  string           `json:"principal"` // that started it
	Home       protocol.SpaceID `json:"home"`      // space of the principal, as it is written there
	Caller     *Caller          `json:"caller,omitempty"`
	Completion Completion       `json:"completion"`
	Rollout    protocol.TaskID  `json:"rollout,omitempty"` // that it is a wave of, "" if it stands for itself
	Owner      string           `json:"owner,omitempty"`   // process that carries it out, "" if there is only one
	StartedAt  int64            `json:"started_at"`        // Unix milliseconds
	Deadline   int64            `json:"deadline"`          // Unix milliseconds
	Seats      []Seat           `json:"seats"`
}

// A Seat is a member on the roster.
type Seat struct {
	Skill      protocol.SkillID `json:"skill_id"`
	Role       string           `json:"role,omitempty"`
	Only       protocol.AgentID `json:"only,omitempty"` // that may be asked, "" for any of the skill's
	Idempotent bool             `json:"idempotent,omitempty"`
	Asked      bool             `json:"asked,omitempty"` // is asked as soon as the roster is stored
	Agent      protocol.AgentID `json:"agent_id,omitempty"`
	State      State            `json:"state,omitempty"` // when it was decided from the start
	Error      *Failure         `json:"error,omitempty"`
}

// A Batch has the decisions since the batch before.
type Batch struct {
	Updates []Update `json:"updates,omitempty"`
	End     *End     `json:"end,omitempty"`
}

// An Update is a decision about one member.
type Update struct {
	Seat    int              `json:"seat"`
	State   State            `json:"state"`
	Asked   bool             `json:"asked,omitempty"`      // is asked as soon as this is stored
	Again   bool             `json:"idempotent,omitempty"` // may be asked twice
	Agent   protocol.AgentID `json:"agent_id,omitempty"`
	At      int64            `json:"at"` // Unix milliseconds
	Late    bool             `json:"late,omitempty"`
	Data    json.RawMessage  `json:"data,omitempty"`
	Dropped bool             `json:"data_dropped,omitempty"`
	Error   *Failure         `json:"error,omitempty"`
}

// An End is the end of a whole dispatch.
type End struct {
	Outcome Status `json:"outcome"`
	At      int64  `json:"at"` // Unix milliseconds
	Reason  string `json:"reason,omitempty"`
}

// A Failure is why a member has no result.
type Failure struct {
	Code    protocol.Code  `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

func failureOf(err error) *Failure {
	e := protocol.AsError(err)
	return &Failure{Code: e.Code, Message: e.Message, Details: e.Details}
}

// invocationID is the id under which a member is asked, for life.
func (d *Dispatch) invocationID(seat int) string { return fmt.Sprintf("%s-%d", d.ID, seat) }

// InvokedBy is the dispatch whose member is asked under an id, if it is one of a
// dispatch.
func InvokedBy(invocation string) protocol.TaskID {
	return protocol.TaskID(invocation[:max(strings.LastIndexByte(invocation, '-'), 0)])
}

// batchKey is the key of a batch. They are numbered from 0 without gaps.
func batchKey(id protocol.TaskID, n int) string { return fmt.Sprintf("%s/%d", id, n) }

// A member is a seat as it is now.
type member struct {
	state   State
	asked   bool
	again   bool // may be asked twice: its capability is idempotent
	agent   protocol.AgentID
	at      int64
	askedAt int64           // Unix milliseconds; 0 before it was asked
	tries   int             // how often the request was sent; one at least if it was asked before a restart
	told    json.RawMessage // its last report of its work, while it is running
	late    bool
	data    json.RawMessage
	dropped bool
	failure *Failure
}

// fresh are the members of a dispatch of which nothing but the roster is
// stored.
func (d *Dispatch) fresh() []member {
	members := make([]member, len(d.Seats))
	for i := range d.Seats {
		s := &d.Seats[i]
		members[i] = member{state: s.State, asked: s.Asked, again: s.Idempotent, agent: s.Agent, at: d.StartedAt, failure: s.Error}
		if s.Asked {
			members[i].askedAt = d.StartedAt
		}
		switch {
		case s.State != "":
		case s.Asked:
			members[i].state = Pending
		default:
			members[i].state = Offline
		}
	}
	return members
}

// apply applies an update to a member.
func (m *member) apply(u *Update) {
	m.state, m.at, m.late, m.data, m.dropped, m.failure = u.State, u.At, u.Late, u.Data, u.Dropped, u.Error
	if u.Asked {
		m.asked, m.again, m.askedAt = true, u.Again, u.At
	}
	if u.Agent != "" {
		m.agent = u.Agent
	}
	if m.decided() {
		m.told = nil
	}
}

// decided reports whether nothing but a late answer changes the member. An offline
// member is decided only by the end of the dispatch.
func (m *member) decided() bool {
	switch m.state {
	case OK, Failed, Rejected, TimedOut, Denied, Cancelled:
		return true
	}
	return false
}
