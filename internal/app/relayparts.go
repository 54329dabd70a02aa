package app

import (
	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/cluster/relay"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/registry/ask"
)

// Numbers of the parts that exchange messages with their counterparts at the other
// bridges.
const (
	registryPart byte = iota + 1
	errandsPart
	limitsPart
)

// joinRegistry makes the registry a part that exchanges messages with those of the
// others.
func (r *relaying) joinRegistry(s *registry.Service) registry.Voice {
	return agentsVoice{r.Join(registryPart, agentsPart{s})}
}

// An agentsPart is the registry as the relay sees it.
type agentsPart struct{ *registry.Service }

func (p agentsPart) Told(from relay.Node, body []byte) { p.Service.Told(ask.Bridge(from), body) }
func (p agentsPart) Began(from relay.Node)             { p.Service.Began(ask.Bridge(from)) }
func (p agentsPart) Ended(from relay.Node)             { p.Service.Ended(ask.Bridge(from)) }
func (p agentsPart) Said(from relay.Node, body []byte) { p.Service.Said(ask.Bridge(from), body) }
func (p agentsPart) Gone(from relay.Node)              { p.Service.Gone(ask.Bridge(from)) }

// An agentsVoice is the relay as the registry sees it.
type agentsVoice struct{ *relay.Voice }

func (v agentsVoice) Say(to ask.Bridge, body []byte) bool { return v.Voice.Say(relay.Node(to), body) }

// invoker is the bridge that waits for the answer to an invocation of a dispatch.
func (s *state) invoker(invocation string) (b ask.Bridge, ok bool) {
	owner, ok := s.promised.groups.value().OwnerOf(dispatch.InvokedBy(invocation))
	if !ok {
		return b, false
	}
	n, elsewhere := s.carrier(owner)
	return ask.Bridge(n), elsewhere
}
