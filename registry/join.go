package registry

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A join token reads abj_<id>.<secret>, like an API key. It lets agents of
// others provide a skill.
const (
	joinPrefix      = "abj_"
	joinIDBytes     = 8
	joinSecretBytes = 32
)

// Bounds of join tokens.
const (
	maxJoins        = 32           // live ones of a skill
	defaultJoinLife = 24 * 60 * 60 // seconds
)

// A JoinRecord is the stored part of a join token: enough to recognise it, not enough to
// use it. It is immutable.
type JoinRecord struct {
	ID    string           `json:"id"`
	Space protocol.SpaceID `json:"space_id"`
	Skill protocol.SkillID `json:"skill_id"`
	// Owner and Since are those of the skill when the token was made: the token
	// does not hold for a later skill of the same name.
	Owner   protocol.Party     `json:"owner"`
	Since   int64              `json:"since"`
	MAC     []byte             `json:"mac"`              // of id and secret, keyed
	Uses    int                `json:"uses"`             // agents that it lets in
	Agents  []protocol.AgentID `json:"agents,omitempty"` // that it has let in
	Barred  []protocol.AgentID `json:"barred,omitempty"` // of these, those that were removed since
	Expires int64              `json:"expires"`          // Unix milliseconds
	By      protocol.Party     `json:"by"`               // its maker
	At      int64              `json:"at"`               // Unix milliseconds
}

// KeptFor is the party whose budget of records the token uses.
func (j *JoinRecord) KeptFor() protocol.Party { return j.By }

// newJoin makes up a join token. The text is shown once and forgotten.
func newJoin() (id, secret, text string) {
	raw := make([]byte, joinIDBytes+joinSecretBytes)
	_, _ = rand.Read(raw) // never fails
	id = hex.EncodeToString(raw[:joinIDBytes])
	secret = base64.RawURLEncoding.EncodeToString(raw[joinIDBytes:])
	return id, secret, joinPrefix + id + "." + secret
}

// redeem lets an agent provide a skill by a join token, once for each agent however often
// it asks. The refusal never has the reason.
func (s *Service) redeem(ctx context.Context, b *bid, r *SkillRecord) error {
	refused := protocol.Errorf(protocol.PermissionDenied, "the join token is not valid").With("param_name", "join").
		With("reason", "it is of another skill, has expired, was used up or revoked, or is none")
	text, found := strings.CutPrefix(b.join, joinPrefix)
	id, secret, ok := strings.Cut(text, ".")
	if !found || !ok || s.opts.Joins == nil || s.opts.Stamp == nil {
		return refused
	}
	_, _, err := records.Change(ctx, s.opts.Joins, tableKey(r.Space, id), func(j *JoinRecord, _ uint64) (*JoinRecord, error) {
		switch {
		case j == nil || !s.opts.Stamped(j.MAC, id, secret) || !j.isFor(r) || j.expired(time.Now()) || slices.Contains(j.Barred, b.agent.ID):
			return nil, refused
		case slices.Contains(j.Agents, b.agent.ID):
			return j, nil
		case len(j.Agents) >= j.Uses:
			return nil, refused
		}
		used := *j
		used.Agents = append(slices.Clone(j.Agents), b.agent.ID)
		return &used, nil
	})
	return err
}

// JoinStamps are the stamps of the join tokens that can still be used.
func (s *Service) JoinStamps() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if s.opts.Joins == nil {
			return
		}
		now := time.Now()
		for _, j := range s.opts.Joins.All() {
			if !j.expired(now) && !yield(j.MAC) {
				return
			}
		}
	}
}

// barJoins has no token of a skill let an agent in again.
func (s *Service) barJoins(ctx context.Context, r *SkillRecord, agent protocol.AgentID) error {
	if s.opts.Joins == nil {
		return nil
	}
	for _, j := range s.joinsOf(ctx, r) {
		_, _, err := records.Change(ctx, s.opts.Joins, tableKey(j.Space, j.ID), func(old *JoinRecord, _ uint64) (*JoinRecord, error) {
			if old == nil || !slices.Contains(old.Agents, agent) || slices.Contains(old.Barred, agent) {
				return old, nil
			}
			barred := *old
			barred.Barred = append(slices.Clone(old.Barred), agent)
			return &barred, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *JoinRecord) isFor(r *SkillRecord) bool {
	return j.Skill == r.ID && j.Space == r.Space && j.Owner == r.Owner && j.Since == r.RegisteredAt
}

func (j *JoinRecord) expired(now time.Time) bool { return now.UnixMilli() >= j.Expires }

// joinsOf lists the tokens of a skill that can still be used, and forgets all
// that cannot be any more, whichever skill they are of.
func (s *Service) joinsOf(ctx context.Context, r *SkillRecord) (live []*JoinRecord) {
	now := time.Now()
	for key, j := range s.opts.Joins.All() {
		switch {
		case j.expired(now):
			_ = s.opts.Joins.Delete(ctx, key, 0) // or the next time
		case j.isFor(r):
			live = append(live, j)
		}
	}
	slices.SortFunc(live, func(a, b *JoinRecord) int { return strings.Compare(a.ID, b.ID) })
	return live
}

// A JoinView is a join token as commands show it.
type JoinView struct {
	ID        string             `json:"token_id" doc:"its part that is no secret"`
	SkillID   protocol.SkillID   `json:"skill_id" doc:"id of the skill that agents may join with the token"`
	Uses      int                `json:"uses" doc:"agents that it lets in"`
	Agents    []protocol.AgentID `json:"agent_ids" doc:"agents that it has let in"`
	ExpiresAt int64              `json:"expires_at" doc:"Unix milliseconds"`
	CreatedAt int64              `json:"created_at" doc:"Unix milliseconds"`
	CreatedBy string             `json:"created_by" doc:"id of who made it"`
}

func (j *JoinRecord) view() JoinView {
	return JoinView{
		ID: j.ID, SkillID: j.Skill, Uses: j.Uses, Agents: append([]protocol.AgentID{}, j.Agents...),
		ExpiresAt: j.Expires, CreatedAt: j.At, CreatedBy: j.By.ID,
	}
}
