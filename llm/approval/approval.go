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

// State is the state of an approval.
type State string

// The states. All but Pending and Approved are final.
const (
	Pending   State = "pending"
	Approved  State = "approved"  // not used yet
	Used      State = "used"      // approved, and used for its call, once
	Denied    State = "denied"    // by a decider
	Expired   State = "expired"   // without a decision in time
	Withdrawn State = "withdrawn" // the call ended first, or differs from the one shown
)

func (s State) over() bool { return s != Pending && s != Approved }

// An Approval is the request for a decision about one call of a tool, with its outcome.
type Approval struct {
	ID      string           `json:"approval_id" doc:"id of the approval"`
	State   State            `json:"state" enum:"pending,approved,used,denied,expired,withdrawn" doc:"pending; approved but not run yet; used: the approved call ran, once; denied; expired: no decision in time; withdrawn: the call ended first"`
	Space   protocol.SpaceID `json:"space_id" doc:"space of the call; its approvers are of this space"`
	Tool    string           `json:"tool" doc:"tool that the model wants to call"`
	Title   string           `json:"title,omitempty" doc:"title of the tool, as declared"`
	Source  string           `json:"source,omitempty" doc:"source of the tool: skill, group, command, mcp:SERVER"`
	Args    json.RawMessage  `json:"arguments" doc:"arguments of the call"`
	Roster  []string         `json:"roster,omitempty" doc:"skills that the call of a group reaches"`
	Risk    string           `json:"risk,omitempty" doc:"of the capability, in its own words"`
	Why     string           `json:"why" doc:"reason why the call needs an approval"`
	Policy  string           `json:"policy,omitempty" doc:"version of the policies at the request: the beginning of a SHA-256 of their texts"`
	Hash    string           `json:"hash" doc:"SHA-256 of tool, arguments and roster"`
	Nonce   string           `json:"nonce,omitempty" doc:"nonce for approval.decide; it is bound to exactly the call shown here"`
	AskedAt int64            `json:"asked_at" doc:"Unix ms"`
	Expires int64            `json:"expires_at" doc:"Unix ms; without a decision by then the call is denied"`

	Requester string           `json:"requester" doc:"principal of the call"`
	Kind      protocol.Kind    `json:"requester_kind,omitempty" doc:"operator, agent, skill or bridge"`
	Skill     protocol.SkillID `json:"skill_id,omitempty" doc:"skill on whose behalf the model was asked"`
	Session   string           `json:"session_id,omitempty" doc:"conversation of the call"`
	Task      string           `json:"task_id,omitempty" doc:"task of the call"`
	TraceID   string           `json:"trace_id,omitempty" doc:"trace of the call"`

	DecidedBy string `json:"decided_by,omitempty" doc:"principal who decided"`
	DecidedAt int64  `json:"decided_at,omitempty" doc:"Unix ms"`
	EndedAt   int64  `json:"ended_at,omitempty" doc:"Unix ms; when it was used, expired or withdrawn"`
	Reason    string `json:"reason,omitempty" doc:"reason of the decision or of the end"`

	UsedUnder string `json:"used_under,omitempty" doc:"version of the policies at the use, if they had changed by then"`

	Replaces string   `json:"replaces,omitempty" doc:"id of the approval that this one replaces, since the call had changed"`
	Changes  []string `json:"changes,omitempty" doc:"differences of the call from that of the replaced approval"`

	Deciders    Deciders `json:"deciders,omitzero" doc:"restriction of the deciders that policy allows; absent for none"`
	Needs       int      `json:"needs,omitempty" doc:"number of required approvals; 1 if absent"`
	Votes       []Vote   `json:"votes,omitempty" doc:"approvals so far"`
	RemindedAt  int64    `json:"reminded_at,omitempty" doc:"Unix ms; time of the last reminder to the deciders"`
	EscalatesAt int64    `json:"escalates_at,omitempty" doc:"Unix ms; time of the escalation to come"`
	EscalatedAt int64    `json:"escalated_at,omitempty" doc:"Unix ms; time of the escalation"`
	EscalatesTo Deciders `json:"escalates_to,omitzero" doc:"further deciders from the escalation on"`
	Edits       int      `json:"edits,omitempty" doc:"number of changes of its arguments by deciders"`
	EditedBy    string   `json:"edited_by,omitempty" doc:"principal who changed them last; another one must approve the change"`
	EditedFor   string   `json:"edited_for,omitempty" doc:"reason of the change"`
	Link        string   `json:"link,omitempty" doc:"URL of the page of the approval; absent without a configured address of the console"`
}

// A Record is the stored form of an approval.
type Record struct {
	Approval
	Home protocol.SpaceID `json:"home"` // of the requester
	Salt []byte           `json:"salt"` // of the nonce
	// Declared is the hash of the declarations of the tool and of the skills that the
	// call reaches.
	Declared    string         `json:"declared,omitempty"`
	Agreed      []Agreement    `json:"agreed,omitempty"`       // votes
	RemindEvery int64          `json:"remind_every,omitempty"` // ms
	Escalation  *Escalation    `json:"escalation,omitempty"`
	Editor      protocol.Party `json:"editor,omitzero"`       // last principal who changed the arguments
	SealedArgs  []byte         `json:"sealed_args,omitempty"` // stored in place of Args
	// SealedChanges are stored in place of Changes, which contain the earlier
	// arguments.
	SealedChanges []byte `json:"sealed_changes,omitempty"`
	// Asking names the policies that require the approval, "" for none.
	Asking string `json:"asking,omitempty"`
	// Effect identifies the effect of the call on the world, "" if undeclared. There is
	// at most one open approval for one effect.
	Effect string `json:"effect,omitempty"`
	// Parked is true if no process waits for the decision: the call is stored, and
	// resumed after the decision.
	Parked bool `json:"parked,omitempty"`
	// Elsewhere is true if the call waits at another bridge, a site of this one, which has
	// requested the approval. No task is here.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Cancelled is the reason for which the task of the call was cancelled, "" if it was
	// not.
	Cancelled string `json:"cancelled,omitempty"`
	// CallHash is the hash of the call once the approval of a parked call is used; Hash
	// is empty then. A bridge of an older release, in which the use of an approval does
	// not begin the call, then finds another hash than that of the call. So it does not
	// repeat the call but answers 4012.
	CallHash string `json:"call_hash,omitempty"`
	// UseFor is the time in ms from the decision within which the approval can be used,
	// 0 for the default.
	UseFor int64 `json:"use_for,omitempty"`
	// Steps are the events for webhooks.
	Steps []Step `json:"steps,omitempty"`
}

// nonceOf is the nonce of a call's hash. It cannot be forged without the salt, and each
// approval has a salt of its own.
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

// view is the record in the form for results and events. A decided approval has no
// nonce.
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

// callHash is the hash of the approval's call.
func (r *Record) callHash() string { return cmp.Or(r.CallHash, r.Hash) }

// view is [Record.view] with the link to the approval's page.
func (s *Service) view(r *Record) Approval {
	v := r.view()
	if s.opts.Console != "" {
		v.Link = s.opts.Console + "approvals/" + r.ID
	}
	return v
}

// requestedBy reports whether a principal is the requester of the call.
func (r *Record) requestedBy(who *protocol.Principal) bool {
	return who.Party() == r.party()
}

// party is the requester of the call.
func (r *Record) party() protocol.Party {
	return protocol.Party{Kind: r.Kind, Space: cmp.Or(r.Home, protocol.DefaultSpace), ID: r.Requester}
}

// hashOf is the hash of a call: of the tool's declaration, the arguments, the roster,
// and the declarations of the skills in it.
func hashOf(t *tools.Tool, x *tools.Execution) string {
	declaration := t.Hash()
	parts := [][]byte{[]byte(t.Name), declaration[:], argumentsOf(x), x.Reached}
	for _, member := range slices.Sorted(slices.Values(x.Roster)) {
		parts = append(parts, []byte(member))
	}
	return hashed(parts...)
}

// declarationOf is the hash of a call's declarations, without its arguments and its
// roster.
func declarationOf(t *tools.Tool, x *tools.Execution) string {
	declaration := t.Hash()
	if len(x.Roster) > 0 { // Reached depends on the roster
		return hashed(declaration[:])
	}
	return hashed(declaration[:], x.Reached)
}

// hashed is the hash of parts with their lengths, so that different parts never have
// the same input.
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

// readable reports whether the arguments can be shown. Null, which no draft has, stands
// for lost ones.
func (r *Record) readable() bool { return string(r.Args) != "null" }

func ms(t time.Time) int64 { return t.UnixMilli() }
