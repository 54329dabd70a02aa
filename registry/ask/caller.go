package ask

import (
	"hash/maphash"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
)

// callerMarks are pseudonyms of callers for agents: an agent can share its work fairly
// among callers without learning their identities.
type callerMarks struct{ seed maphash.Seed }

func newCallerMarks() callerMarks { return callerMarks{maphash.MakeSeed()} }

// sender is the sender id in a request to an agent: that of the bridge or, for an agent
// that may see its callers, KIND/ID of the caller. No id has a slash.
func (s *Service) sender(to AgentKey, who protocol.Party) string {
	if who.Kind == "" || s.opts.Tells == nil || !s.opts.Tells(to) {
		return s.opts.BridgeID
	}
	return protocol.FitSender(string(who.Kind) + "/" + who.ID)
}

// of is the mark of a principal's calls, constant as long as the bridge runs. It is ""
// for administrators, for all principals under --dev and for the bridge itself.
func (m callerMarks) of(who *protocol.Principal) string {
	if who == nil || who.Unbounded() || who.Kind == protocol.KindBridge {
		return ""
	}
	return m.mark(who.Party())
}

// ofNamed is the mark of a caller of which only the name is known, "" for none.
func (m callerMarks) ofNamed(name string) string {
	if name == "" {
		return ""
	}
	return m.mark(protocol.Party{ID: name})
}

func (m callerMarks) mark(who protocol.Party) string {
	var text [16]byte
	return string(strconv.AppendUint(text[:0], maphash.Comparable(m.seed, who), 36))
}
