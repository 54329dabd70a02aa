package security

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

const (
	// maxRevocations bounds the revocations of a space, so that no space takes the
	// room of others: each is looked up by its token or principal, and forgotten
	// when the revoked tokens would have expired.
	maxRevocations = 10_000
	forgetEvery    = time.Minute
)

// A Revocation takes tokens of issuers back, before they expire. It is about
// one token, or about those of a principal that were issued up to a time.
type Revocation struct {
	ID        string           `json:"id"`
	Token     string           `json:"token,omitempty"`     // as a credential, see token.Credential
	Principal string           `json:"principal,omitempty"` // whose tokens, if not one
	Kind      protocol.Kind    `json:"kind,omitempty"`      // of that principal; "" is any
	Before    time.Time        `json:"before,omitzero"`     // issued then or earlier
	Space     protocol.SpaceID `json:"space,omitempty"`     // of the token's principal; "" is any
	Issuer    string           `json:"issuer,omitempty"`    // "" is any
	Reason    string           `json:"reason,omitempty"`
	By        string           `json:"by"`
	At        time.Time        `json:"at"`
	Until     time.Time        `json:"until"` // when the last of them expires
}

// Covers reports whether a principal came in with a revoked token. A token without
// a time of issue counts as issued before.
func (r *Revocation) Covers(who *protocol.Principal) bool {
	switch {
	case who.Method != protocol.MethodToken, r.Space != "" && r.Space != who.Home():
		return false
	case r.Issuer != "" && who.Attributes["issuer"] != r.Issuer:
		return false
	case r.Token != "":
		return r.Token == who.Credential
	}
	return r.Principal == who.ID && (r.Kind == "" || r.Kind == who.Kind) && !who.Issued.After(r.Before)
}

// key is the id of a revocation: made of its subject, and not of how often it was
// said.
func (r *Revocation) key() string {
	about := "token\x00" + r.Token
	if r.Token == "" {
		about = "principal\x00" + r.Principal
	}
	if r.Kind != "" {
		about = string(r.Kind) + " " + about
	}
	sum := sha256.Sum256([]byte(about + "\x00" + string(r.Space) + "\x00" + r.Issuer))
	return hex.EncodeToString(sum[:12])
}

// A TokenEvent tells that tokens were revoked.
type TokenEvent struct {
	Call       *commands.Call
	Revocation *Revocation
}

// TokenOptions configure a [TokenService].
type TokenOptions struct {
	Revocations records.Table[Revocation]
	// LongestLife is the longest time that a token issued by now may be valid.
	LongestLife time.Duration
	// AcceptsUndated says that tokens without a time of issue are accepted. Such a
	// token may be older than a revocation and be shown at any time later, so no
	// revocation is forgotten then.
	AcceptsUndated bool
	Log            *slog.Logger
	// Changed is told of revocations by command; optional.
	Changed func(context.Context, TokenEvent)
	Now     func() time.Time
	// Settled is the time that must have passed before a revocation is
	// forgotten, see [clock.Clock.Settled]. Now by default.
	Settled func() time.Time
}

// A TokenService revokes tokens, and knows which are.
type TokenService struct {
	TokenOptions
	mu    sync.Mutex // held while the index is made
	index atomic.Pointer[revocationIndex]
}

// A revocationIndex finds revocations by token and by principal.
type revocationIndex struct {
	about map[subject][]*Revocation
	kept  map[protocol.SpaceID]int // how many there are for each space
}

// A subject is a token or a principal that is revoked in a space.
type subject struct {
	space            protocol.SpaceID
	token, principal string // one of them
}

// NewTokenService makes one. It is to be told of changes: [TokenService.Note].
func NewTokenService(o TokenOptions) *TokenService {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Settled == nil {
		o.Settled = o.Now
	}
	s := &TokenService{TokenOptions: o}
	s.Note()
	return s
}

// Note takes up that revocations have changed, by whichever bridge.
func (s *TokenService) Note() {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := &revocationIndex{make(map[subject][]*Revocation), make(map[protocol.SpaceID]int)}
	for _, r := range s.Revocations.All() {
		about := subject{r.Space, r.Token, r.Principal}
		index.about[about] = append(index.about[about], r)
		index.kept[r.Space]++
	}
	s.index.Store(index)
}

// Commands are the commands of the family.
func (s *TokenService) Commands() []commands.Command {
	return []commands.Command{
		commands.New(tokenList, s.List),
		commands.New(tokenRevoke, s.Revoke),
	}
}

// Revoked reports whether a principal came in with a token that was revoked.
func (s *TokenService) Revoked(who *protocol.Principal) bool {
	if who.Method != protocol.MethodToken {
		return false
	}
	index := s.index.Load()
	covers := func(r *Revocation) bool { return r.Covers(who) }
	for _, space := range [...]protocol.SpaceID{"", who.Home()} {
		if slices.ContainsFunc(index.about[subject{space: space, token: who.Credential}], covers) ||
			slices.ContainsFunc(index.about[subject{space: space, principal: who.ID}], covers) {
			return true
		}
	}
	return false
}

// Run forgets revocations of no more use, until ctx ends. It begins when the
// system's clock, which may be wrong when the machine starts, had time to be
// set.
func (s *TokenService) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(clock.Hold):
	}
	ticker := time.NewTicker(forgetEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.forget(ctx)
		}
	}
}

// forget removes the revocations of tokens that have expired, if that is known.
func (s *TokenService) forget(ctx context.Context) {
	if s.AcceptsUndated {
		return
	}
	for id, r := range s.Revocations.All() {
		if s.Settled().Before(r.Until) {
			continue
		}
		_, revision, ok := s.Revocations.Get(id)
		if !ok {
			continue
		}
		if err := s.Revocations.Delete(ctx, id, revision); err != nil && protocol.CodeOf(err) != protocol.NotFound {
			s.Log.Warn("a revocation that is of no more use is not forgotten", "error", err)
			return
		}
	}
}
