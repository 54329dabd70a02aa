package shadow

import (
	"encoding/json"
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// A Side is one of the two documents of a skill.
type Side string

// The sides.
const (
	Desired  Side = "desired"  // the wished state
	Reported Side = "reported" // the state as the agent reports it
)

// A Record is one document of one skill of an agent, as stored. It is immutable.
type Record struct {
	Space protocol.SpaceID `json:"space_id"`
	Agent protocol.AgentID `json:"agent_id"`
	Skill protocol.SkillID `json:"skill_id"`
	Side  Side             `json:"side"`
	// Owner is the party that registered the agent, and Born when: state does not outlive
	// the registration that it belongs to.
	Owner protocol.Party `json:"owner"`
	Born  int64          `json:"born"` // Unix milliseconds

	Version   uint64          `json:"version"` // counts its changes, from 1
	State     json.RawMessage `json:"state"`
	UpdatedAt int64           `json:"updated_at"` // Unix milliseconds
	UpdatedBy string          `json:"updated_by"`
	History   []Change        `json:"history,omitempty"` // the oldest first, the present one last
}

// KeptFor is the party whose budget of records the document uses.
func (r *Record) KeptFor() protocol.Party { return r.Owner }

// A Change is one change of a document.
type Change struct {
	Version uint64          `json:"version" doc:"version that the document had from then on"`
	At      int64           `json:"at" doc:"time, Unix milliseconds"`
	By      string          `json:"by" doc:"sender of the request that made it"`
	Patch   json.RawMessage `json:"patch,omitempty" type:"object" doc:"merge patch that was applied; absent if it had more bytes than are remembered, 1024 of a desired and 256 of a reported state"`
}

// remembered are the bounds of the history of changes: their number, and the bytes of a
// patch. Devices report often, and each report writes all of it.
var remembered = map[Side]struct{ changes, bytes int }{
	Desired:  {16, 1024},
	Reported: {8, 256},
}

// note remembers a change. The history is not shared.
func (r *Record) note(patch json.RawMessage) {
	bounds := remembered[r.Side]
	c := Change{Version: r.Version, At: r.UpdatedAt, By: r.UpdatedBy}
	if len(patch) <= bounds.bytes {
		c.Patch = patch
	}
	kept := r.History
	if excess := len(kept) + 1 - bounds.changes; excess > 0 {
		kept = kept[excess:]
	}
	r.History = append(slices.Clip(kept), c)
}

// A place names a document: the agent, the skill and the side.
type place struct {
	Agent
	skill protocol.SkillID
	side  Side
}

// key is the key of a document's record: ids have no slash.
func (p *place) key() string {
	return string(p.Space) + "/" + string(p.ID) + "/" + string(p.skill) + "/" + string(p.side)
}

// empty is the record of a document that was never set.
func (p *place) empty() *Record {
	return &Record{Space: p.Space, Agent: p.ID, Skill: p.skill, Side: p.side, Owner: p.Owner, Born: p.Born, State: json.RawMessage("{}")}
}
