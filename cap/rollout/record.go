package rollout

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/protocol"
)

// Bounds of rollouts and their records.
const (
	maxMembers  = 100_000 // of one rollout
	partSize    = 256     // members of a part, and of a wave
	maxData     = 1 << 10 // bytes of a member's result
	maxPartData = 32 << 10
	maxMessage  = 256      // bytes of a member's error
	maxCommand  = 64 << 10 // bytes of params and vendor data, which every wave has a copy of
)

// A State is the state of a member.
type State string

// The states of a member.
const (
	Queued     State = "queued" // to be asked, again perhaps
	InProgress State = "in_progress"
	Succeeded  State = "succeeded"
	Failed     State = "failed"
	Rejected   State = "rejected" // by the agent, or because the caller may not ask it
	TimedOut   State = "timed_out"
	Removed    State = "removed" // from the registry, before it was asked
	Cancelled  State = "cancelled"
)

var states = []State{Queued, InProgress, Succeeded, Failed, Rejected, TimedOut, Removed, Cancelled}

// A Status is the state of a rollout.
type Status string

// The statuses. Scheduled, Running, Waiting, Paused and Aborted may change.
const (
	Scheduled Status = "pending"
	Running   Status = "running"
	Waiting   Status = "waiting" // for the approval of the canary
	Paused    Status = "paused"
	Aborted   Status = "aborted" // by itself: no more members are asked unless it is resumed
	Complete  Status = "complete"
	Partial   Status = "partial"
	Fruitless Status = "failed"
	Called    Status = "cancelled"
)

// A Rollout is the record of a rollout, without its members. Commands and its
// owner change it by compare-and-set.
type Rollout struct {
	dispatch.Command

	ID        protocol.TaskID `json:"task_id"`
	Caller    dispatch.Caller `json:"caller"`
	Selector  string          `json:"selector,omitempty"` // of a group that has one
	Patience  int64           `json:"patience"`           // ms that a member has to answer
	Plan      Plan            `json:"plan"`
	StartedAt int64           `json:"started_at"` // Unix milliseconds
	Owner     string          `json:"owner,omitempty"`

	Status   Status  `json:"status"`
	Since    int64   `json:"since"` // Unix milliseconds
	Reason   string  `json:"reason,omitempty"`
	EndedAt  int64   `json:"ended_at,omitempty"` // when nothing was left to be done
	Parts    int     `json:"parts"`
	Passed   bool    `json:"passed,omitempty"`   // the canary
	Approval string  `json:"approval,omitempty"` // of the canary
	Forgiven Counts  `json:"forgiven,omitzero"`  // outcomes that no criterion counts any more
	Round    int     `json:"round,omitempty"`    // how often ended members were queued again
	Again    []State `json:"again,omitempty"`    // which, the last time
	Lost     int     `json:"lost,omitempty"`     // parts that the store has lost
}

// KeptFor is the party whose budget of records the rollout uses.
func (r *Rollout) KeptFor() protocol.Party {
	return protocol.Party{Kind: r.Caller.Kind, Space: r.Caller.Space, ID: r.Caller.ID}
}

// ended reports whether nothing is left to be done.
func (r *Rollout) ended() bool { return r.EndedAt != 0 }

// over reports whether no more members will be asked.
func (s Status) over() bool {
	switch s {
	case Scheduled, Running, Waiting, Paused, Aborted:
		return false
	}
	return true
}

// A Part is some of the members, with the waves that they are in. Its owner
// changes it by compare-and-set, and goes on with the waves that it finds in it,
// so that there are never two for one attempt.
type Part struct {
	Members []Member `json:"members"`
	Waves   []Wave   `json:"waves,omitempty"`
	Round   int      `json:"round,omitempty"`    // up to which ended members were queued again
	Owner   string   `json:"owner,omitempty"`    // that alone changes it; a new owner of the rollout claims its parts first
	MadeAt  int64    `json:"made_at"`            // Unix milliseconds
	AskedAt int64    `json:"asked_at,omitempty"` // when its latest wave was begun, Unix milliseconds
}

// A Wave is a dispatch to some members of a part. That it is in the part is
// stored before the dispatch is.
type Wave struct {
	Task  protocol.TaskID `json:"task_id"`
	Seats []int           `json:"seats"` // of the part, in the order of the dispatch's roster
}

// A Member is a skill, or one agent of it, that the rollout asks.
type Member struct {
	Skill     protocol.SkillID  `json:"skill_id"`
	Agent     protocol.AgentID  `json:"agent_id,omitempty"` // that alone is asked; "" for any of the skill's
	State     State             `json:"state"`
	Asked     protocol.AgentID  `json:"asked,omitempty"`      // the agent that was asked last
	Attempts  int               `json:"attempts,omitempty"`   // that it was asked
	Spent     int               `json:"spent,omitempty"`      // of these, before it was queued again by hand
	At        int64             `json:"at,omitempty"`         // when it became so, Unix milliseconds
	NotBefore int64             `json:"not_before,omitempty"` // Unix milliseconds
	Data      json.RawMessage   `json:"data,omitempty"`
	Dropped   bool              `json:"data_dropped,omitempty"`
	Error     *dispatch.Failure `json:"error,omitempty"`
}

// backsOff reports whether a member is not to be asked again yet. The clock may
// have been set back since: then the time that it has waited is unknown, and must
// not become days.
func (m *Member) backsOff(now int64) bool { return m.NotBefore > now && m.At <= now }

func partKey(id protocol.TaskID, n int) string { return fmt.Sprintf("%s/%d", id, n) }

// clone is a copy whose lists may be changed.
func (p *Part) clone() *Part {
	c := *p
	c.Members, c.Waves = slices.Clone(p.Members), slices.Clone(p.Waves)
	return &c
}

// Counts are the numbers of members by their state.
type Counts struct {
	Queued     int `json:"queued,omitempty"`
	InProgress int `json:"in_progress,omitempty"`
	Succeeded  int `json:"succeeded,omitempty"`
	Failed     int `json:"failed,omitempty"`
	Rejected   int `json:"rejected,omitempty"`
	TimedOut   int `json:"timed_out,omitempty"`
	Removed    int `json:"removed,omitempty"`
	Cancelled  int `json:"cancelled,omitempty"`

	Retried int `json:"-"` // of the queued, those that were asked before
}

func (c *Counts) of(s State) *int {
	switch s {
	case InProgress:
		return &c.InProgress
	case Succeeded:
		return &c.Succeeded
	case Failed:
		return &c.Failed
	case Rejected:
		return &c.Rejected
	case TimedOut:
		return &c.TimedOut
	case Removed:
		return &c.Removed
	case Cancelled:
		return &c.Cancelled
	}
	return &c.Queued
}

// add counts a member, or with -1 takes it out.
func (c *Counts) add(m *Member, n int) {
	*c.of(m.State) += n
	if m.State == Queued && m.Attempts > 0 {
		c.Retried += n
	}
}

// count counts the members of a part.
func (c *Counts) count(p *Part, n int) {
	for i := range p.Members {
		c.add(&p.Members[i], n)
	}
}

// sum adds other counts, or with -1 takes them out.
func (c *Counts) sum(o *Counts, n int) {
	for _, s := range states {
		*c.of(s) += n * *o.of(s)
	}
	c.Retried += n * o.Retried
}

// without are the counts less other ones.
func (c Counts) without(o Counts) Counts {
	return Counts{Succeeded: c.Succeeded - o.Succeeded, Failed: c.Failed - o.Failed, Rejected: c.Rejected - o.Rejected, TimedOut: c.TimedOut - o.TimedOut}
}

// ended is the number of members that have answered, or will not.
func (c *Counts) ended() int { return c.Succeeded + c.Failed + c.Rejected + c.TimedOut }

// begun is the number of those that were asked, or are.
func (c *Counts) begun() int { return c.ended() + c.InProgress + c.Retried }

// total is the number of all.
func (c *Counts) total() int { return c.Queued + c.InProgress + c.ended() + c.Removed + c.Cancelled }

// on is the number of members whose end counts for an abort.
func (c *Counts) on(end string) int {
	switch end {
	case "failed":
		return c.Failed
	case "rejected":
		return c.Rejected
	case "timed_out":
		return c.TimedOut
	}
	return c.Failed + c.Rejected + c.TimedOut
}

// Map is the counts by state, without those that are 0.
func (c Counts) Map() map[string]int {
	all := make(map[string]int)
	for _, s := range states {
		if n := *c.of(s); n != 0 {
			all[string(s)] = n
		}
	}
	return all
}
