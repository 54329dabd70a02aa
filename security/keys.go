package security

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

const (
	maxKeysPerSpace = 100_000
	keepRevoked     = 30 * 24 * time.Hour // a revoked or expired key is shown for so long
	usesEvery       = time.Minute         // between looks at which keys were used
	useGrain        = time.Hour           // how exactly last use is stored
)

// A KeyUse says when a key was last used, to the hour.
type KeyUse struct {
	At time.Time `json:"at"`
}

// A KeyEvent tells that a key was made or revoked.
type KeyEvent struct {
	Call    *commands.Call
	Key     *Key
	Revoked bool
}

// Names knows the names that can be given to a principal. For an unknown name it returns the one
// that was probably meant, "" for none.
type Names interface {
	KnowsRole(role string) (meant string, known bool)
	KnowsScope(scope string) (meant string, known bool)
}

// KeyOptions configure a [KeyService].
type KeyOptions struct {
	Ring     *Keyring
	Index    *KeyIndex // of the ring's keys
	Uses     records.Table[KeyUse]
	BridgeID string
	Log      *slog.Logger
	// Clash reports whether another kind of party has the id: a
	// device, if it is a person's or a program's, or the other way round;
	// optional.
	Clash func(who protocol.Party) bool
	// Names knows which roles and actions there are; without it any will do.
	Names Names
	// Changed is called after keys were made or revoked by command; optional.
	Changed func(context.Context, KeyEvent)
}

// A KeyService makes, lists and revokes API keys.
type KeyService struct {
	KeyOptions
	keys records.Table[Key]
	now  func() time.Time

	used sync.Map // of *atomic.Int64 by key id: Unix seconds of the last use

	renewing sync.Mutex
	renewals map[string]renewal // by key id: to be stored
	aged     chan struct{}      // holds a token when there are any
}

// NewKeyService returns the service for a ring, which it tells of uses from
// then on.
func NewKeyService(o KeyOptions) *KeyService {
	s := &KeyService{KeyOptions: o, keys: o.Ring.keys, now: o.Ring.now, renewals: make(map[string]renewal), aged: make(chan struct{}, 1)}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	o.Ring.used, o.Ring.aged = s.note, s.renew
	return s
}

// Commands are the commands of the family.
func (s *KeyService) Commands() []commands.Command {
	return []commands.Command{
		commands.New(keyCreate, s.Create),
		commands.New(keyList, s.List),
		commands.New(keyRevoke, s.Revoke),
	}
}

// note remembers that a key was used. There are no more entries than keys.
func (s *KeyService) note(id string) {
	now := s.now().Unix()
	if at, ok := s.used.Load(id); ok {
		if last := at.(*atomic.Int64); now-last.Load() >= 60 {
			last.Store(now)
		}
		return
	}
	at := new(atomic.Int64)
	at.Store(now)
	s.used.Store(id, at)
}

// lastUse is the time when a key was used last, as far as is known; zero for never.
func (s *KeyService) lastUse(id string) time.Time {
	if at, ok := s.used.Load(id); ok {
		return time.Unix(at.(*atomic.Int64).Load(), 0)
	}
	if use, _, ok := s.Uses.Get(id); ok {
		return use.At
	}
	return time.Time{}
}

// Run stores last uses, has keys that are shown be recognised by the newest pepper, and forgets keys that have been dead for long, until
// ctx ends.
func (s *KeyService) Run(ctx context.Context) error {
	ticker := time.NewTicker(usesEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			s.storeUses(last, 0)
			return nil
		case <-s.aged:
			s.storeRenewals(ctx)
		case <-ticker.C:
			s.storeUses(ctx, useGrain)
			s.forget(ctx)
		}
	}
}

// storeUses stores the uses that differ from the stored ones by a grain.
func (s *KeyService) storeUses(ctx context.Context, grain time.Duration) {
	for id, at := range s.used.Range {
		use := KeyUse{time.Unix(at.(*atomic.Int64).Load(), 0).UTC()}
		if stored, _, ok := s.Uses.Get(id.(string)); ok && use.At.Sub(stored.At) <= grain {
			continue
		}
		if _, _, ok := s.keys.Get(id.(string)); !ok {
			s.used.Delete(id)
			continue
		}
		if _, err := s.Uses.Put(ctx, id.(string), &use); err != nil {
			s.Log.Warn("last use of keys not stored", "error", err)
			return
		}
	}
}

// forget removes keys that were revoked or have expired long ago.
func (s *KeyService) forget(ctx context.Context) {
	dead := s.now().Add(-keepRevoked)
	for id, key := range s.keys.All() {
		if (key.Revoked.IsZero() || key.Revoked.After(dead)) && (key.Expires.IsZero() || key.Expires.After(dead)) {
			continue
		}
		_, revision, ok := s.keys.Get(id)
		if !ok || s.keys.Delete(ctx, id, revision) != nil {
			continue
		}
		s.used.Delete(id)
		if _, revision, ok := s.Uses.Get(id); ok {
			_ = s.Uses.Delete(ctx, id, revision)
		}
	}
}

// A KeyView is a key as commands show it.
type KeyView struct {
	ID        string              `json:"key_id" doc:"id of the key, the part of it that is no secret"`
	Name      string              `json:"name,omitempty" doc:"for people"`
	Principal string              `json:"principal_id" doc:"holder of the key"`
	Kind      protocol.Kind       `json:"kind" doc:"operator, agent or skill"`
	Space     protocol.SpaceID    `json:"space_id" doc:"id of the space that the key gives access to"`
	Roles     []string            `json:"roles" doc:"roles that policies grant permissions to; empty if it has none"`
	Scopes    []string            `json:"scopes" doc:"actions it is limited to; none limits nothing"`
	LLM       *protocol.Allowance `json:"llm,omitempty" doc:"bounds of its questions to language models; absent limits nothing"`
	S3        bool                `json:"s3,omitempty" doc:"it has an access key for S3"`
	State     KeyState            `json:"state" doc:"live, expired or revoked; only a live key opens anything"`
	CreatedAt int64               `json:"created_at" doc:"Unix milliseconds, as all times here"`
	CreatedBy string              `json:"created_by,omitempty" doc:"id of the principal that made it"`
	ExpiresAt int64               `json:"expires_at,omitempty" doc:"absent if it does not expire"`
	RevokedAt int64               `json:"revoked_at,omitempty" doc:"absent if it was not revoked"`
	Reason    string              `json:"reason,omitempty" doc:"reason why it was revoked"`
	LastUseAt int64               `json:"last_use_at,omitempty" doc:"to the minute, or to the hour after a restart; absent if it was not used"`
}

// A KeyState says whether a key is valid.
type KeyState string

// The states of a key.
const (
	KeyLive    KeyState = "live"
	KeyExpired KeyState = "expired"
	KeyRevoked KeyState = "revoked"
)

func (s *KeyService) view(k *Key) KeyView {
	v := KeyView{
		ID: k.ID, Name: k.Name, Principal: k.Principal, Kind: k.Kind, Space: k.Space,
		Roles: append([]string{}, k.Roles...), Scopes: append([]string{}, k.Scopes...), LLM: k.LLM, S3: k.Access, State: s.state(k),
		CreatedAt: milliseconds(k.Created), CreatedBy: k.CreatedBy, ExpiresAt: milliseconds(k.Expires),
		RevokedAt: milliseconds(k.Revoked), Reason: k.Reason, LastUseAt: milliseconds(s.lastUse(k.ID)),
	}
	return v
}

func (s *KeyService) state(k *Key) KeyState {
	switch {
	case !k.Revoked.IsZero():
		return KeyRevoked
	case !k.live(s.now()):
		return KeyExpired
	}
	return KeyLive
}

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// spaceFor is the space a call is about: the one it names, if the caller may
// see it, or the caller's own. It does not reveal whether another exists.
func spaceFor(call *commands.Call, named protocol.SpaceID) (protocol.SpaceID, error) {
	if named == "" {
		return call.Principal.Home(), nil
	}
	if named == call.Principal.Home() || call.Principal.Unbounded() {
		return named, nil
	}
	return "", protocol.Errorf(protocol.NotFound, "there is no space %q", named).With("space_id", named)
}
