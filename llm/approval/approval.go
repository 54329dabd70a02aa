package approval

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// State says how far an approval has come.
type State string

// The states. All but Pending and Approved are final.
const (
	Pending   State = "pending"
	Approved  State = "approved"  // and not run yet
	Used      State = "used"      // approved, and the call was let through, once
	Denied    State = "denied"    // by somebody
	Expired   State = "expired"   // nobody decided in time
	Withdrawn State = "withdrawn" // the call ended first, or differs from the one that was shown
)

func (s State) over() bool { return s != Pending && s != Approved }

// An Approval is the question whether one call of a tool may run, and what
// became of it.
type Approval struct {
	ID      string           `json:"approval_id" doc:"id of the approval"`
	State   State            `json:"state" enum:"pending,approved,used,denied,expired,withdrawn" doc:"pending; approved but not run yet; used: let through once; denied; expired: nobody decided in time; withdrawn: the call ended first"`
	Space   protocol.SpaceID `json:"space_id" doc:"space in which it happens; its approvers are of this space"`
	Tool    string           `json:"tool" doc:"call that the model wants to run"`
	Title   string           `json:"title,omitempty" doc:"of the tool, in the words of who declared it"`
	Source  string           `json:"source,omitempty" doc:"source of the tool: skill, group, command, mcp:SERVER"`
	Args    json.RawMessage  `json:"arguments" doc:"with what, as it would be run"`
	Roster  []string         `json:"roster,omitempty" doc:"the skills it would reach, of a group"`
	Risk    string           `json:"risk,omitempty" doc:"of the capability, in its own words"`
	Why     string           `json:"why" doc:"reason why somebody has to agree"`
	Policy  string           `json:"policy,omitempty" doc:"version of the policies under which it was asked: the beginning of a SHA-256 of their texts"`
	Hash    string           `json:"hash" doc:"SHA-256 of tool, arguments and roster"`
	Nonce   string           `json:"nonce,omitempty" doc:"to be given to approval.decide; it stands for exactly what is shown here"`
	AskedAt int64            `json:"asked_at" doc:"Unix ms"`
	Expires int64            `json:"expires_at" doc:"Unix ms; undecided by then, the call is denied"`

	Requester string           `json:"requester" doc:"for whom the model wants it"`
	Kind      protocol.Kind    `json:"requester_kind,omitempty" doc:"operator, agent, skill or bridge"`
	Skill     protocol.SkillID `json:"skill_id,omitempty" doc:"the skill that asked the model"`
	Session   string           `json:"session_id,omitempty" doc:"conversation it is part of"`
	Task      string           `json:"task_id,omitempty" doc:"task it is part of"`
	TraceID   string           `json:"trace_id,omitempty" doc:"trace it is part of"`

	DecidedBy string `json:"decided_by,omitempty" doc:"principal who decided"`
	DecidedAt int64  `json:"decided_at,omitempty" doc:"Unix ms"`
	EndedAt   int64  `json:"ended_at,omitempty" doc:"Unix ms; when it was used, expired or withdrawn"`
	Reason    string `json:"reason,omitempty" doc:"reason why it was decided or ended so"`

	UsedUnder string `json:"used_under,omitempty" doc:"version of the policies that let the call through, if they were others by then"`

	Replaces string   `json:"replaces,omitempty" doc:"the approval that this one takes the place of: the call was not the one approved any more"`
	Changes  []string `json:"changes,omitempty" doc:"differences of the call from the one that was asked about before"`

	Deciders    Deciders `json:"deciders,omitzero" doc:"people who may decide, of those whom policy lets decide; absent for all of them"`
	Needs       int      `json:"needs,omitempty" doc:"number of those who have to agree; 1 if absent"`
	Votes       []Vote   `json:"votes,omitempty" doc:"people who have agreed so far"`
	RemindedAt  int64    `json:"reminded_at,omitempty" doc:"Unix ms; when those who could decide were reminded last"`
	EscalatesAt int64    `json:"escalates_at,omitempty" doc:"Unix ms; when more people may decide"`
	EscalatedAt int64    `json:"escalated_at,omitempty" doc:"Unix ms; since when more people may decide"`
	EscalatesTo Deciders `json:"escalates_to,omitzero" doc:"these deciders"`
	Edits       int      `json:"edits,omitempty" doc:"number of times that people changed its arguments"`
	EditedBy    string   `json:"edited_by,omitempty" doc:"principal who changed them last; somebody else has to agree to that"`
	EditedFor   string   `json:"edited_for,omitempty" doc:"reason why they were changed"`
	Link        string   `json:"link,omitempty" doc:"address of the page at which it is decided; absent if the bridge does not know its own"`
}

// A Record is an approval as it is stored.
type Record struct {
	Approval
	Home protocol.SpaceID `json:"home"` // of the requester
	Salt []byte           `json:"salt"` // of the nonce
	// Declared is the hash of what the tool, and whoever it reaches, say of
	// themselves.
	Declared    string         `json:"declared,omitempty"`
	Agreed      []Agreement    `json:"agreed,omitempty"`       // votes
	RemindEvery int64          `json:"remind_every,omitempty"` // ms
	Escalation  *Escalation    `json:"escalation,omitempty"`
	Editor      protocol.Party `json:"editor,omitzero"`       // who has changed the call
	SealedArgs  []byte         `json:"sealed_args,omitempty"` // in place of Args, as they are stored
	// SealedChanges are the Changes, which have the earlier arguments, as they are
	// stored.
	SealedChanges []byte `json:"sealed_changes,omitempty"`
	// Asking names the policies that want somebody to agree, "" if none does.
	Asking string `json:"asking,omitempty"`
	// Effect is the deed of the call in the world, "" if that is not declared. While
	// somebody is asked about it nobody is asked about the same.
	Effect string `json:"effect,omitempty"`
	// Parked says that no process waits for the decision: the call is kept, and
	// whoever keeps it goes on with it.
	Parked bool `json:"parked,omitempty"`
	// Cancelled is the reason for which the task of the call was cancelled, "" if it was
	// not.
	Cancelled string `json:"cancelled,omitempty"`
	// CallHash is the hash of the call once the approval of a kept call is used; Hash is
	// empty then. A bridge of a release that does not know that the use of an approval
	// begins the call takes it for another call than the one approved, and does not make it
	// again but answers 4012.
	CallHash string `json:"call_hash,omitempty"`
	// UseFor is the time in ms for which an approval that was given is of use, 0 for that
	// of all.
	UseFor int64 `json:"use_for,omitempty"`
	// Steps are what webhooks are told of.
	Steps []Step `json:"steps,omitempty"`
}

// nonceOf stands for the hash of the call as shown. Without the salt
// none can be made up, and a salt serves one approval.
func nonceOf(salt []byte, hash string) string {
	sum := sha256.New()
	_, _ = sum.Write(salt)
	_, _ = sum.Write([]byte(hash))
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:18])
}

func newSalt() []byte {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // it never fails
	return salt
}

func (r *Record) answers(nonce string) bool {
	return subtle.ConstantTimeCompare([]byte(nonceOf(r.Salt, r.Hash)), []byte(nonce)) == 1
}

// view is the approval as others see it. The nonce of a decided one is of no
// use to anybody.
func (r *Record) view() Approval {
	v := r.Approval
	v.Hash, v.Nonce, v.Votes, v.EscalatesAt = r.callHash(), "", nil, r.escalatesAt()
	if r.State == Pending {
		v.Nonce = nonceOf(r.Salt, r.Hash)
	}
	for _, a := range r.Agreed {
		v.Votes = append(v.Votes, a.Vote)
	}
	if r.Escalation != nil {
		v.EscalatesTo = r.Escalation.To
	}
	return v
}

// callHash is the hash of the call that the approval is about.
func (r *Record) callHash() string { return cmp.Or(r.CallHash, r.Hash) }

// view is the approval as others see it, with where it is decided.
func (s *Service) view(r *Record) Approval {
	v := r.view()
	if s.opts.Console != "" {
		v.Link = s.opts.Console + "approvals/" + r.ID
	}
	return v
}

// requestedBy reports whether a principal is the one that the call is for.
func (r *Record) requestedBy(who *protocol.Principal) bool {
	return who.Party() == r.party()
}

// party is the one that the call is for.
func (r *Record) party() protocol.Party {
	return protocol.Party{Kind: r.Kind, Space: cmp.Or(r.Home, protocol.DefaultSpace), ID: r.Requester}
}

// hashOf is the hash of the call to approve: the tool as it is declared, the
// arguments, and whom the call reaches, as these declare themselves.
func hashOf(t *tools.Tool, x *tools.Execution) string {
	declaration := t.Hash()
	parts := [][]byte{[]byte(t.Name), declaration[:], argumentsOf(x), x.Reached}
	for _, member := range slices.Sorted(slices.Values(x.Roster)) {
		parts = append(parts, []byte(member))
	}
	return hashed(parts...)
}

// declarationOf is the hash of what is declared of a call, whatever its
// arguments and roster.
func declarationOf(t *tools.Tool, x *tools.Execution) string {
	declaration := t.Hash()
	if len(x.Roster) > 0 { // who is reached is told by the roster
		return hashed(declaration[:])
	}
	return hashed(declaration[:], x.Reached)
}

// hashed is the hash of parts, and of no others.
func hashed(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = sum.Write(size[:])
		_, _ = sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// readable reports whether the arguments can be shown: no draft has null.
func (r *Record) readable() bool { return string(r.Args) != "null" }

func ms(t time.Time) int64 { return t.UnixMilli() }
