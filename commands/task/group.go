package task

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Source keeps tasks of its own, which its commands started: they are shown
// and cancelled like the others.
type Source interface {
	Get(id protocol.TaskID) (*Task, bool)
	// All yields every task, without the members of groups and without results, in
	// no order.
	All() iter.Seq[*Task]
	// Counts are the numbers of members of a group task by state.
	Counts(id protocol.TaskID) map[string]int
	// Cancel ends a task and returns when that is stored; 3006 if it has ended.
	Cancel(ctx context.Context, id protocol.TaskID, reason string) error
}

// A Group is the subject of a group task: a capability of the members of a
// group.
type Group struct {
	Cap        protocol.CapID        `json:"cap_id" doc:"the Cap"`
	Group      protocol.GroupID      `json:"group_id" doc:"the group"`
	Capability protocol.CapabilityID `json:"capability_id" doc:"work for every member"`
	Params     json.RawMessage       `json:"params,omitempty" doc:"with which parameters; in task.get only"`
	Completion string                `json:"completion" doc:"condition of completion: all, quorum, first, deadline"`
	N          int                   `json:"n,omitempty" doc:"number that must have done it, for quorum and first"`
	Deadline   int64                 `json:"deadline" doc:"Unix milliseconds"`
	Counts     map[string]int        `json:"counts,omitempty" doc:"number of members by state"`
	Members    []Member              `json:"members,omitempty" doc:"in the order of the roster; of a rollout group.rollout.members lists them"`
	Rollout    *Rollout              `json:"rollout,omitempty" doc:"of a rollout: how it proceeds"`
}

// A Rollout is the progress of a dispatch to a fleet.
type Rollout struct {
	Selector   string     `json:"selector,omitempty" doc:"selector that chose the members"`
	Continuous bool       `json:"continuous,omitempty" doc:"true if others may join"`
	Reason     string     `json:"reason,omitempty" doc:"reason why it is paused, aborted or waits"`
	Rate       float64    `json:"rate_per_minute,omitempty" doc:"number of members that may be asked in a minute now; absent for any number"`
	Opens      *time.Time `json:"opens_at,omitempty" doc:"time at which members are asked next; absent if that is now"`
	ValidUntil time.Time  `json:"valid_until" doc:"time from which nobody is asked any more"`
	Approval   string     `json:"approval_id,omitempty" doc:"the approval of its canary"`
}

// A Member is one of those a group task asks.
type Member struct {
	Skill    protocol.SkillID `json:"skill_id" doc:"the skill"`
	Role     string           `json:"role,omitempty" doc:"its role in the group"`
	Agent    protocol.AgentID `json:"agent_id,omitempty" doc:"the agent that was asked"`
	State    string           `json:"state" enum:"pending,accepted,running,ok,failed,rejected,timed_out,offline,denied,cancelled" doc:"state of the work"`
	At       int64            `json:"at" doc:"since when, Unix milliseconds"`
	AskedAt  int64            `json:"asked_at,omitempty" doc:"time at which it was asked first, Unix milliseconds; absent if it was not"`
	Attempts int              `json:"attempts,omitempty" doc:"number of times that the request was sent to it; at least, if the bridge was started anew"`
	Progress json.RawMessage  `json:"progress,omitempty" doc:"last report of its work, while it is at it; up to 4 KiB"`
	Late     bool             `json:"late,omitempty" doc:"it answered when the task had ended"`
	Data     json.RawMessage  `json:"data,omitempty" doc:"its result"`
	Dropped  bool             `json:"data_dropped,omitempty" doc:"its result was more than is kept: 64 KiB, or 512 KiB of all members together"`
	Error    *Failure         `json:"error,omitempty" doc:"reason why it has no result"`
}
