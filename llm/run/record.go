package run

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A Record describes a run besides its files.
type Record struct {
	ID        string           `json:"id"`
	Owner     grant.Grant      `json:"owner"`
	Mode      Mode             `json:"mode"`
	Package   string           `json:"package,omitempty"` // SHA-256 of its zip
	Name      string           `json:"name,omitempty"`    // of the package
	Version   string           `json:"version,omitempty"`
	Workflow  string           `json:"workflow,omitempty"`
	Agent     string           `json:"agent,omitempty"`
	Project   string           `json:"project,omitempty"` // group or folder of @project
	Skill     protocol.SkillID `json:"skill,omitempty"`
	Model     string           `json:"model,omitempty"`
	Tools     []string         `json:"tools,omitzero"` // nil: as in the system's policy
	Autopilot bool             `json:"autopilot,omitempty"`
	Stream    bool             `json:"stream,omitempty"`
	MaxTurns  int              `json:"max_turns,omitempty"`
	TraceID   string           `json:"trace_id,omitempty"`
	Expires   int64            `json:"approval_expires_ms,omitempty"` // time until its approvals expire; 0 for the bridge's setting

	Node    string     `json:"node,omitempty"` // process that runs it, "" at rest or without a cluster
	Phase   Phase      `json:"phase"`
	Waits   *Waits     `json:"waits,omitempty"` // in WaitingApproval, and while that call runs
	Code    fault.Code `json:"code,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Last    []byte     `json:"last,omitempty"` // the model's last message and questions, sealed
	Turns   int        `json:"turns"`
	Tokens  int        `json:"tokens,omitempty"`
	Cost    float64    `json:"cost,omitempty"`
	Seq     uint64     `json:"seq,omitempty"` // of the last event
	Started time.Time  `json:"started"`
	Changed time.Time  `json:"changed"` // of the phase
}

// visibleTo reports whether a principal may see a run. For others it is not found.
func (r *Record) visibleTo(who *protocol.Principal) bool {
	return r.Owner.By(who) || who.Manages(r.Owner.Space)
}

// MayFollow reports whether a principal may subscribe to the events of a run.
func (s *Service) MayFollow(who *protocol.Principal, id protocol.TaskID) bool {
	r, _, ok := s.opts.Runs.Get(string(id))
	return ok && r.visibleTo(who)
}

// last are the last words and questions of the model.
type last struct {
	Message   string     `json:"message,omitempty"`
	Questions []Question `json:"questions,omitempty"`
}

// maxLast is the greatest size of the stored last message and questions, in bytes.
const maxLast = 128 << 10

func lastPurpose(id string) string { return "run/" + id + "/last" }

// seal seals the last message and questions of a run, shortened if need be.
func (s *Service) seal(id string, l last) []byte {
	if len(l.Message) > maxLast/2 {
		l.Message = strings.ToValidUTF8(l.Message[:maxLast/2], "") + "…"
	}
	raw, err := json.Marshal(l)
	if err != nil || len(raw) > maxLast {
		return nil
	}
	sealed, err := s.opts.Sealer.Seal(raw, lastPurpose(id))
	if err != nil {
		return nil
	}
	return sealed
}

// said returns the last message and questions of a run.
func (s *Service) said(r *Record) (l last) {
	if len(r.Last) == 0 {
		return last{}
	}
	raw, err := s.opts.Sealer.Open(r.Last, lastPurpose(r.ID))
	if err == nil {
		err = json.Unmarshal(raw, &l)
	}
	if err != nil {
		s.opts.Log.Warn("the last message of a run cannot be read", "run", r.ID, "error", err)
	}
	return l
}
