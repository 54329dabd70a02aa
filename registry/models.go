package registry

import (
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// A CardModel is a language model that an agent answers for.
type CardModel struct {
	ID      string   `json:"id"` // the name in requests
	Version string   `json:"version,omitempty"`
	Aliases []string `json:"aliases,omitempty"`
	Default bool     `json:"default,omitempty"` // serves requests that name no model
}

// CardChanged has the card of an agent published anew, because something on
// it has changed that is not the registry's.
func (s *Service) CardChanged(space protocol.SpaceID, agent protocol.AgentID) {
	s.card(ask.AgentKey{Space: space, ID: agent})
}
