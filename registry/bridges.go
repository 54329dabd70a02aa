package registry

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/registry/ask"
)

// A Voice sends messages to the registries of the other bridges of a cluster.
type Voice interface {
	// Tell sends all of them a statement that holds until a later one, or until
	// this process ends.
	Tell(body []byte)
	// Say sends a message to one, once and in order. It reports false if that
	// bridge is not there.
	Say(to ask.Bridge, body []byte) bool
}

// Kinds of the messages between registries: the first byte.
const (
	aSign byte = 's' // a sign
	ids   byte = 'i' // the prefix of the ids of its requests
)

// askers are the bridges by the prefix of the ids of their requests.
type askers struct {
	mu       sync.RWMutex
	byPrefix map[string]ask.Bridge
}

func (a *askers) set(prefix string, b ask.Bridge) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byPrefix == nil {
		a.byPrefix = make(map[string]ask.Bridge)
	}
	a.byPrefix[prefix] = b
}

func (a *askers) forget(b ask.Bridge) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for prefix, is := range a.byPrefix {
		if is == b {
			delete(a.byPrefix, prefix)
		}
	}
}

func (a *askers) of(id string) (b ask.Bridge, ok bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	b, ok = a.byPrefix[id[:strings.LastIndexByte(id, '-')+1]]
	return b, ok
}

var _ ask.Others = (*Service)(nil)

// Say implements [ask.Others].
func (s *Service) Say(to ask.Bridge, message []byte) bool { return s.voice.Say(to, message) }

// Asker implements [ask.Others].
func (s *Service) Asker(id string) (ask.Bridge, bool) {
	if b, ok := s.askers.of(id); ok || s.opts.Owner == nil {
		return b, ok
	}
	return s.opts.Owner(id)
}

func (s *Service) tellSign(g sign) { s.voice.Tell(g.encode()) }

// encode is the sign as it is sent.
func (g sign) encode() []byte {
	b, _ := json.Marshal(g) // texts and numbers
	return append([]byte{aSign}, b...)
}

// Everything calls tell with every message that another bridge needs to know the state of
// this one.
func (s *Service) Everything(tell func(body []byte)) {
	tell(append([]byte{ids}, s.ids.Prefix()...))
	s.board.signs(func(g sign) { tell(g.encode()) })
}

// Told takes a message of another bridge.
func (s *Service) Told(from ask.Bridge, body []byte) {
	var g sign
	switch {
	case len(body) > 0 && body[0] == ids:
		s.askers.set(string(body[1:]), from)
	case len(body) == 0 || body[0] != aSign || json.Unmarshal(body[1:], &g) != nil:
		s.log.Error("what another bridge tells cannot be read", "bridge", from.ID)
	default:
		s.board.told(from, g)
	}
}

// Began notes that a bridge sends its whole state from now on, until [Service.Ended].
func (s *Service) Began(from ask.Bridge) { s.board.tellsAll(from) }

// Ended notes that a bridge has sent its whole state: statements from before
// [Service.Began] that were not repeated no longer hold.
func (s *Service) Ended(from ask.Bridge) { s.board.toldAll(from) }

// Said takes a message of another bridge to this one.
func (s *Service) Said(from ask.Bridge, body []byte) {
	if !s.asking.Said(from, body) {
		s.log.Error("what another bridge says cannot be read", "bridge", from.ID)
	}
}

// Gone forgets the statements of a bridge whose process has ended.
func (s *Service) Gone(from ask.Bridge) {
	s.askers.forget(from)
	s.board.bridgeEnded(from)
}
