package webdav

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of locks. They are in memory: a restart ends them, and each bridge of a
// cluster has its own.
const (
	maxLocks        = 10_000
	maxLocksOfSpace = maxLocks / 2 // so that no space has all
	maxLocksOfParty = 256
	maxLockPath     = 1 << 11 // bytes of a group and a path

	defaultTimeout = 10 * time.Minute
	maxTimeout     = time.Hour
)

// A heldLock keeps requests that do not name its token from changing a resource by
// WebDAV. It is its owner's alone: to know a token is no right.
type heldLock struct {
	token   string
	space   protocol.SpaceID
	root    string // name of the target
	folder  bool   // its URL ends in a slash
	deep    bool   // holds for everything below it too
	shared  bool
	owner   protocol.Party
	comment string // XML that the client gave as owner
	timeout time.Duration
	expires time.Time
}

// covers reports whether a lock holds for a name.
func (l *heldLock) covers(name string) bool {
	return l.root == name || l.deep && strings.HasPrefix(name, l.root+"/")
}

// locks are those of all spaces.
type locks struct {
	now func() time.Time

	mu      sync.Mutex
	byToken map[string]*heldLock
	byRoot  map[lockRoot][]*heldLock
	parties map[protocol.Party]int
	spaces  map[protocol.SpaceID]int
}

type lockRoot struct {
	space protocol.SpaceID
	name  string
}

func newLocks(now func() time.Time) *locks {
	return &locks{now: now, byToken: make(map[string]*heldLock), byRoot: make(map[lockRoot][]*heldLock), parties: make(map[protocol.Party]int), spaces: make(map[protocol.SpaceID]int)}
}

// over are the locks that hold for a name. The locks are locked.
func (s *locks) over(space protocol.SpaceID, name string) (found []*heldLock) {
	now := s.now()
	for root := name; ; {
		for _, l := range s.byRoot[lockRoot{space, root}] {
			if l.covers(name) && now.Before(l.expires) {
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
	now := s.now()
	for _, l := range s.byToken {
		if l.space == space && strings.HasPrefix(l.root, name+"/") && now.Before(l.expires) {
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
	holds := func(l *heldLock) bool { return l.owner.Is(who) && shown[l.token] }
	judge := func(over []*heldLock) {
		own := false
		for _, l := range over {
			own = own || holds(l)
		}
		for _, l := range over {
			if !own || !l.shared && !holds(l) {
				roots = append(roots, l.root)
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

// take makes a lock, unless another one is in the way: the roots of those are
// returned.
func (s *locks) take(who *protocol.Principal, l heldLock) (made heldLock, inTheWay []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.owner, l.space = who.Party(), who.Home()
	over := s.over(l.space, l.root)
	if l.deep {
		over = append(over, s.below(l.space, l.root)...)
	}
	for _, other := range over {
		if !l.shared || !other.shared {
			inTheWay = append(inTheWay, other.root)
		}
	}
	if len(inTheWay) > 0 {
		return l, inTheWay, nil
	}
	if len(s.byToken) >= maxLocks || s.spaces[l.space] >= maxLocksOfSpace || s.parties[l.owner] >= maxLocksOfParty {
		s.expire()
	}
	switch {
	case len(l.root) > maxLockPath:
		return l, nil, protocol.InvalidParam("path", "is too long")
	case s.parties[l.owner] >= maxLocksOfParty:
		return l, nil, protocol.Errorf(protocol.LimitReached, "you may hold %d locks", maxLocksOfParty).With("limit", maxLocksOfParty)
	case len(s.byToken) >= maxLocks, s.spaces[l.space] >= maxLocksOfSpace:
		return l, nil, protocol.Errorf(protocol.Busy, "the bridge has too many locks of WebDAV")
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	l.token = "urn:aibridge:lock:" + hex.EncodeToString(id[:])
	l.expires = s.now().Add(l.timeout)
	held := &l
	s.byToken[l.token] = held
	root := lockRoot{l.space, l.root}
	s.byRoot[root] = append(s.byRoot[root], held)
	s.parties[l.owner]++
	s.spaces[l.space]++
	return l, nil, nil
}

// refresh prolongs a lock of a party that holds for a name.
func (s *locks) refresh(who *protocol.Principal, name, token string, timeout time.Duration) (heldLock, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.live(who, name, token)
	if l == nil {
		return heldLock{}, false
	}
	l.timeout, l.expires = timeout, s.now().Add(timeout)
	return *l, true
}

// release ends a lock of a party that holds for a name.
func (s *locks) release(who *protocol.Principal, name, token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.live(who, name, token)
	if l != nil {
		s.remove(l)
	}
	return l != nil
}

// live is a lock by its token. The locks are locked.
func (s *locks) live(who *protocol.Principal, name, token string) *heldLock {
	l := s.byToken[token]
	if l == nil || l.space != who.Home() || !l.owner.Is(who) || !l.covers(name) || !s.now().Before(l.expires) {
		return nil
	}
	return l
}

// gone ends the locks of a name that is deleted, and of everything below it.
func (s *locks) gone(space protocol.SpaceID, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.byRoot[lockRoot{space, name}] {
		s.remove(l)
	}
	for _, l := range s.below(space, name) {
		s.remove(l)
	}
}

// expire forgets locks whose time is over. The locks are locked.
func (s *locks) expire() {
	now := s.now()
	for _, l := range s.byToken {
		if !now.Before(l.expires) {
			s.remove(l)
		}
	}
}

// remove forgets a lock. The locks are locked.
func (s *locks) remove(l *heldLock) {
	if s.byToken[l.token] == nil {
		return
	}
	delete(s.byToken, l.token)
	root := lockRoot{l.space, l.root}
	var left []*heldLock
	for _, other := range s.byRoot[root] {
		if other != l {
			left = append(left, other)
		}
	}
	if s.byRoot[root] = left; len(left) == 0 {
		delete(s.byRoot, root)
	}
	if s.parties[l.owner]--; s.parties[l.owner] <= 0 {
		delete(s.parties, l.owner)
	}
	if s.spaces[l.space]--; s.spaces[l.space] <= 0 {
		delete(s.spaces, l.space)
	}
}
