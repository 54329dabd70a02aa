package mcp

import (
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// A session is a session of the SDK with the party of its principal.
type session struct {
	*sdk.ServerSession
	party string

	logs atomic.Bool // its client has requested logs

	mu   sync.Mutex
	seen time.Time // by the SDK, which ends sessions that it sees nothing of
}

// sessions holds the open sessions, by id.
type sessions struct {
	places *fair.Semaphore

	mu   sync.Mutex
	open map[string]*session
}

func newSessions(most int) *sessions {
	return &sessions{
		places: fair.New(fair.Options{What: "MCP sessions", Capacity: int64(most)}),
		open:   make(map[string]*session),
	}
}

// hasRoom returns the error of a principal that may not open another session.
func (ss *sessions) hasRoom(who *protocol.Principal) *protocol.Error {
	err := ss.places.TryAcquire(fair.Of(who), 1)
	if err == nil {
		ss.places.Release(fair.Of(who), 1)
	}
	return err
}

// note adds a new session of a principal, until it ends. It fails if others took the
// last place meanwhile.
func (ss *sessions) note(s *sdk.ServerSession, who *protocol.Principal) *protocol.Error {
	id := s.ID()
	if id == "" {
		return nil
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.open[id] != nil {
		return nil
	}
	if err := ss.places.TryAcquire(fair.Of(who), 1); err != nil {
		return err
	}
	ss.open[id] = &session{ServerSession: s, party: party(who), seen: time.Now()}
	go func() {
		_ = s.Wait() // however it ends
		ss.mu.Lock()
		defer ss.mu.Unlock()
		delete(ss.open, id)
		ss.places.Release(fair.Of(who), 1)
	}()
	return nil
}

// has reports whether a principal has a session of that id.
func (ss *sessions) has(id string, who *protocol.Principal) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.open[id]
	return s != nil && s.party == party(who)
}

// wantsLog records that the client of a principal's session has requested logs.
func (ss *sessions) wantsLog(id string, who *protocol.Principal) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s := ss.open[id]; s != nil && s.party == party(who) {
		s.logs.Store(true)
	}
}

// use returns a principal's session for a direct call. It returns nil if the SDK must
// see a request of the session, to keep it alive.
func (ss *sessions) use(id string, who *protocol.Principal, every time.Duration) *session {
	ss.mu.Lock()
	s := ss.open[id]
	ss.mu.Unlock()
	if s == nil || s.party != party(who) || s.InitializeParams() == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.seen) > every {
		s.seen = time.Now()
		return nil
	}
	return s
}
