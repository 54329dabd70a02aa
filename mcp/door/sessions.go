package door

import (
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/protocol"
)

// A session is one of the SDK's, and whose it is.
type session struct {
	*sdk.ServerSession
	party string

	mu   sync.Mutex
	seen time.Time // by the SDK, which ends sessions that it sees nothing of
}

// sessions are those that are open, by id.
type sessions struct {
	mu   sync.Mutex
	open map[string]*session
}

func newSessions() *sessions { return &sessions{open: make(map[string]*session)} }

// note remembers a session that a principal has opened, until it ends.
func (ss *sessions) note(s *sdk.ServerSession, who *protocol.Principal) {
	id := s.ID()
	if id == "" {
		return
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.open[id] != nil {
		return
	}
	ss.open[id] = &session{ServerSession: s, party: party(who), seen: time.Now()}
	go func() {
		_ = s.Wait() // however it ends
		ss.mu.Lock()
		defer ss.mu.Unlock()
		delete(ss.open, id)
	}()
}

// has reports whether a principal has a session of that id.
func (ss *sessions) has(id string, who *protocol.Principal) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.open[id]
	return s != nil && s.party == party(who)
}

// use is a principal's session, unless it is time for the SDK to see something
// of it.
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
