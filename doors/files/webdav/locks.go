package webdav

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Bounds of the locks of all bridges.
const (
	maxLocks        = 10_000
	maxLocksOfSpace = maxLocks / 2 // so that no space has all
	maxLocksOfParty = 256
	maxLockPath     = 1 << 11 // bytes of a group and a path

	defaultTimeout = 10 * time.Minute
	maxTimeout     = time.Hour
)

// A Lock is the record of a lock, which keeps requests that do not name its token from
// changing a resource by WebDAV. It is its owner's alone: to know a token is no right.
// The key of the record is the token without its prefix.
type Lock struct {
	Space   protocol.SpaceID `json:"space"`
	Root    string           `json:"root"`             // name of the target
	Folder  bool             `json:"folder,omitempty"` // its URL ends in a slash
	Deep    bool             `json:"deep,omitempty"`   // holds for everything below it too
	Shared  bool             `json:"shared,omitempty"`
	Owner   protocol.Party   `json:"owner"`
	Comment string           `json:"comment,omitempty"` // XML that the client gave as owner
	Expires int64            `json:"expires"`           // Unix milliseconds
}

// KeptFor is the party in whose budget of records this one counts.
func (l *Lock) KeptFor() protocol.Party { return l.Owner }

// covers reports whether a lock holds for a name.
func (l *Lock) covers(name string) bool {
	return l.Root == name || l.Deep && strings.HasPrefix(name, l.Root+"/")
}

func (l *Lock) expired(now time.Time) bool { return now.UnixMilli() >= l.Expires }

// tokenPrefix begins the tokens of locks.
const tokenPrefix = "urn:aibridge:lock:"

func keyOf(token string) (key string, ok bool) { return strings.CutPrefix(token, tokenPrefix) }

// A heldLock is a lock as a bridge knows it.
type heldLock struct {
	Lock
	token string
	// order counts the locks as they were made, as far as this bridge has seen it: the
	// same at all of them, since they follow one log.
	order uint64
}

// locks are those of all spaces, as this bridge follows them.
type locks struct {
	table   records.Table[Lock]
	catchUp func(context.Context) error // nil: the table is always up to date
	now     func() time.Time
	log     *slog.Logger

	mu      sync.Mutex
	made    uint64
	byToken map[string]*heldLock
	byRoot  map[lockRoot][]*heldLock
	parties map[protocol.Party]int
	spaces  map[protocol.SpaceID]int
	// untold are the tokens that no client has, and since when: of locks that the store did
	// not confirm, but may have, or that came too late. They are removed.
	untold map[string]time.Time
}

type lockRoot struct {
	space protocol.SpaceID
	name  string
}

func newLocks(o *Options) *locks {
	s := &locks{
		table: o.Locks, catchUp: o.CatchUp, now: o.Now, log: o.Log,
		byToken: make(map[string]*heldLock), byRoot: make(map[lockRoot][]*heldLock), parties: make(map[protocol.Party]int), spaces: make(map[protocol.SpaceID]int),
		untold: make(map[string]time.Time),
	}
	s.table.OnChange(s.changed)
	return s
}

// changed follows the table.
func (s *locks) changed(key string, _, now *Lock) {
	token := tokenPrefix + key
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.byToken[token]
	switch {
	case now == nil && held != nil:
		s.remove(held)
	case now == nil:
	case held != nil:
		held.Lock = *now
	default:
		s.made++
		s.add(&heldLock{Lock: *now, token: token, order: s.made})
	}
}

// add notes a lock. The locks are locked.
func (s *locks) add(l *heldLock) {
	s.byToken[l.token] = l
	root := lockRoot{l.Space, l.Root}
	s.byRoot[root] = append(s.byRoot[root], l)
	s.parties[l.Owner]++
	s.spaces[l.Space]++
}

// remove forgets a lock. The locks are locked.
func (s *locks) remove(l *heldLock) {
	delete(s.byToken, l.token)
	root := lockRoot{l.Space, l.Root}
	var left []*heldLock
	for _, other := range s.byRoot[root] {
		if other != l {
			left = append(left, other)
		}
	}
	if s.byRoot[root] = left; len(left) == 0 {
		delete(s.byRoot, root)
	}
	if s.parties[l.Owner]--; s.parties[l.Owner] <= 0 {
		delete(s.parties, l.Owner)
	}
	if s.spaces[l.Space]--; s.spaces[l.Space] <= 0 {
		delete(s.spaces, l.Space)
	}
}

// counts reports whether a lock keeps anybody out. The locks are locked.
func (s *locks) counts(l *heldLock) bool {
	return !l.expired(s.now()) && s.untold[l.token].IsZero()
}

// over are the locks that hold for a name. The locks are locked.
func (s *locks) over(space protocol.SpaceID, name string) (found []*heldLock) {
	for root := name; ; {
		for _, l := range s.byRoot[lockRoot{space, root}] {
			if l.covers(name) && s.counts(l) {
				found = append(found, l)
			}
		}
		i := strings.LastIndexByte(root, '/')
		if i < 0 {
			return found
		}
		root = root[:i]
	}
}

// below are the locks of everything in a folder. The locks are locked.
func (s *locks) below(space protocol.SpaceID, name string) (found []*heldLock) {
	for _, l := range s.byToken {
		if l.Space == space && strings.HasPrefix(l.Root, name+"/") && s.counts(l) {
			found = append(found, l)
		}
	}
	return found
}

// of are the locks that hold for a name.
func (s *locks) of(space protocol.SpaceID, name string) []heldLock {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []heldLock
	for _, l := range s.over(space, name) {
		found = append(found, *l)
	}
	return found
}

// inTheWay are the roots of locks that keep a party from changing a name, and with
// deep anything below it: locks of others, or without their token. Among shared
// locks it is enough that the party holds one of them.
func (s *locks) inTheWay(who *protocol.Principal, name string, deep bool, shown map[string]bool) (roots []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	holds := func(l *heldLock) bool { return l.Owner.Is(who) && shown[l.token] }
	judge := func(over []*heldLock) {
		own := false
		for _, l := range over {
			own = own || holds(l)
		}
		for _, l := range over {
			if !own || !l.Shared && !holds(l) {
				roots = append(roots, l.Root)
			}
		}
	}
	judge(s.over(who.Home(), name))
	if deep {
		for _, l := range s.below(who.Home(), name) {
			judge([]*heldLock{l})
		}
	}
	return roots
}

// rivals are the roots of the locks that a lock cannot stand beside, of those that were
// made before an order. The locks are locked.
func (s *locks) rivals(l *Lock, before uint64) (roots []string) {
	over := s.over(l.Space, l.Root)
	if l.Deep {
		over = append(over, s.below(l.Space, l.Root)...)
	}
	for _, other := range over {
		if other.order < before && !(l.Shared && other.Shared) {
			roots = append(roots, other.Root)
		}
	}
	return roots
}

// mayTake says what keeps a lock from being made, as far as this bridge knows.
func (s *locks) mayTake(l *Lock) (inTheWay []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if inTheWay = s.rivals(l, s.made+1); len(inTheWay) > 0 {
		return inTheWay, nil
	}
	switch {
	case len(l.Root) > maxLockPath:
		return nil, protocol.InvalidParam("path", "is too long")
	case s.parties[l.Owner] >= maxLocksOfParty:
		return nil, protocol.Errorf(protocol.LimitReached, "you may hold %d locks", maxLocksOfParty).With("limit", maxLocksOfParty)
	case len(s.byToken) >= maxLocks, s.spaces[l.Space] >= maxLocksOfSpace:
		return nil, protocol.Errorf(protocol.Busy, "the bridge has too many locks of WebDAV")
	}
	return nil, nil
}

// full reports whether there may be no room for a lock until others are forgotten.
func (s *locks) full(l *Lock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byToken) >= maxLocks || s.spaces[l.Space] >= maxLocksOfSpace || s.parties[l.Owner] >= maxLocksOfParty
}

// take makes a lock, unless others are in the way: the roots of those are returned.
//
// Of locks that are made at several bridges at the same moment the one counts that the
// log has first. Each bridge makes its own, sees by then all that came before it, and
// takes it back if one of these is in the way.
func (s *locks) take(ctx context.Context, who *protocol.Principal, l Lock, timeout time.Duration) (made heldLock, inTheWay []string, err error) {
	l.Owner, l.Space, l.Expires = who.Party(), who.Home(), s.now().Add(timeout).UnixMilli()
	if s.full(&l) {
		s.expire(ctx)
	}
	if inTheWay, err = s.mayTake(&l); err != nil || len(inTheWay) > 0 {
		return made, inTheWay, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	key := hex.EncodeToString(id[:])
	if _, err = s.table.Create(ctx, key, &l); err != nil {
		if errors.Is(err, protocol.ErrUnconfirmed) {
			s.leave(tokenPrefix + key)
		}
		return made, nil, err
	}
	s.mu.Lock()
	held := s.byToken[tokenPrefix+key]
	if held != nil {
		made, inTheWay = *held, s.rivals(&l, held.order)
	}
	s.mu.Unlock()
	switch {
	case held == nil:
		return made, nil, protocol.Errorf(protocol.RevisionConflict, "the resource was removed meanwhile")
	case len(inTheWay) > 0:
		s.leave(made.token)
		s.drop(ctx, made.token)
	}
	return made, inTheWay, nil
}

// await waits until this bridge knows the locks of some tokens, if it does not: they may
// have been made at another one, just now.
func (s *locks) await(ctx context.Context, tokens map[string]bool) {
	if s.catchUp == nil {
		return
	}
	for token := range tokens {
		if key, ok := keyOf(token); ok {
			if _, _, known := s.table.Get(key); !known {
				_ = s.catchUp(ctx) // while NATS is away, what is known counts
				return
			}
		}
	}
}

// refresh prolongs a lock of a party that holds for a name; false if there is none.
func (s *locks) refresh(ctx context.Context, who *protocol.Principal, name, token string, timeout time.Duration) (heldLock, bool, error) {
	key, ok := keyOf(token)
	if !ok {
		return heldLock{}, false, nil
	}
	l, _, err := records.Change(ctx, s.table, key, func(old *Lock, _ uint64) (*Lock, error) {
		if !s.isHeld(old, who, name) {
			return nil, errNoLock
		}
		next := *old
		next.Expires = s.now().Add(timeout).UnixMilli()
		return &next, nil
	})
	switch {
	case err == errNoLock: //nolint:errorlint // it comes as it is
		return heldLock{}, false, nil
	case err != nil:
		return heldLock{}, false, err
	}
	return heldLock{Lock: *l, token: token}, true, nil
}

var errNoLock = protocol.Errorf(protocol.NotFound, "there is no such lock")

// release ends a lock of a party that holds for a name; false if there is none.
func (s *locks) release(ctx context.Context, who *protocol.Principal, name, token string) (bool, error) {
	key, ok := keyOf(token)
	if !ok {
		return false, nil
	}
	if l, _, _ := s.table.Get(key); !s.isHeld(l, who, name) {
		return false, nil
	}
	err := s.table.Delete(ctx, key, 0)
	if protocol.CodeOf(err) == protocol.NotFound {
		return false, nil
	}
	return err == nil, err
}

// isHeld reports whether a party has a lock, nil for none, that holds for a name.
func (s *locks) isHeld(l *Lock, who *protocol.Principal, name string) bool {
	return l != nil && l.Space == who.Home() && l.Owner.Is(who) && l.covers(name) && !l.expired(s.now())
}

// gone ends the locks of a name that is deleted, and of everything below it.
func (s *locks) gone(ctx context.Context, space protocol.SpaceID, name string) {
	var tokens []string
	s.mu.Lock()
	for _, l := range s.byRoot[lockRoot{space, name}] {
		tokens = append(tokens, l.token)
	}
	for _, l := range s.below(space, name) {
		tokens = append(tokens, l.token)
	}
	s.mu.Unlock()
	for _, token := range tokens {
		s.drop(ctx, token)
	}
}

// leave notes that no client has a lock, which may be stored.
func (s *locks) leave(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.untold[token] = s.now()
}

// settled is the time after which a write that was not confirmed does not happen any more.
const settled = time.Minute

// drop removes a lock.
func (s *locks) drop(ctx context.Context, token string) {
	key, _ := keyOf(token)
	err := s.table.Delete(ctx, key, 0)
	missing := protocol.CodeOf(err) == protocol.NotFound
	if err != nil && !missing {
		s.log.Warn("a lock of WebDAV is not removed yet", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !missing || s.now().Sub(s.untold[token]) > settled {
		delete(s.untold, token)
	}
}

// expire removes locks whose time is over.
func (s *locks) expire(ctx context.Context) {
	var tokens []string
	s.mu.Lock()
	now := s.now()
	for _, l := range s.byToken {
		if l.expired(now) {
			tokens = append(tokens, l.token)
		}
	}
	s.mu.Unlock()
	for _, token := range tokens {
		key, _ := keyOf(token)
		l, revision, ok := s.table.Get(key)
		if ok && l.expired(now) { // nobody has prolonged it elsewhere
			_ = s.table.Delete(ctx, key, revision) // it counts for nobody, and is tried again
		}
	}
}

// retract removes the locks that no client was told of.
func (s *locks) retract(ctx context.Context) {
	var tokens []string
	s.mu.Lock()
	for token := range s.untold {
		tokens = append(tokens, token)
	}
	s.mu.Unlock()
	if len(tokens) == 0 {
		return
	}
	if s.catchUp != nil {
		if err := s.catchUp(ctx); err != nil {
			return // NATS is still away
		}
	}
	for _, token := range tokens {
		s.drop(ctx, token)
	}
}
