package registry

import (
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
	"github.com/aibridge/aibridge/registry/ask"
)

// An AgentType is the purpose of an agent.
type AgentType string

// The types of agents.
const (
	MCPAgent   AgentType = "mcp_agent"   // brings requests together and talks to models
	RouteAgent AgentType = "route_agent" // hands commands out to others and gathers their results
	EndAgent   AgentType = "end_agent"   // does the work
)

// An Agent is a registered agent, as stored. It is immutable.
type Agent struct {
	ID        protocol.AgentID `json:"agent_id"`
	Space     protocol.SpaceID `json:"space_id"`
	Type      AgentType        `json:"type"`
	Name      string           `json:"name,omitempty"`
	Endpoints []string         `json:"endpoints,omitempty"`
	Tags      selector.Tags    `json:"tags,omitempty"`

	// Owner is the party that registered the agent. Its MQTT clients are the agent's.
	Owner protocol.Party `json:"owner"`
	// ClientID is the MQTT client that registered the agent, "" if it was
	// registered in another way.
	ClientID string `json:"client_id,omitempty"`
	// CertSerial is the certificate whose key the principal had proved to hold
	// when it registered the agent, "" if it came in another way.
	CertSerial protocol.Serial `json:"cert_sn,omitempty"`
	// Routes is the skill that the certificate makes a route agent's, "" for
	// agents of other types.
	Routes protocol.SkillID `json:"routes,omitempty"`

	RegisteredAt int64 `json:"registered_at"` // Unix milliseconds
	UpdatedAt    int64 `json:"updated_at"`    // Unix milliseconds
}

// KeptFor is the party whose budget of records the agent uses.
func (a *Agent) KeptFor() protocol.Party { return a.Owner }

// A Status is whether an agent is there.
type Status string

// The statuses.
const (
	Online  Status = "online"
	Offline Status = "offline"
	// Suspended is offline because the certificate it was registered with has
	// ended. Registering it anew, with a certificate that counts, ends that.
	Suspended Status = "suspended"
)

func statusOf(online bool) Status {
	if online {
		return Online
	}
	return Offline
}

// Key names the agent.
func (a *Agent) Key() ask.AgentKey { return ask.AgentKey{Space: a.Space, ID: a.ID} }

// BelongsTo reports whether the agent's connections are made by who: by the
// principal that registered it, or by the agent's own identity.
func (a *Agent) BelongsTo(who *protocol.Principal) bool {
	return a.IsOf(who.Party())
}

// IsOf is BelongsTo for a party.
func (a *Agent) IsOf(party protocol.Party) bool {
	return a.owner().Includes(party) || a.ID.Party(a.Space) == party
}

// owner is the party that registered the agent. Records of earlier versions have no
// space: it is taken to be the agent's, as an id in another space is another
// principal's.
func (a *Agent) owner() protocol.Party {
	owner := a.Owner
	if owner.Space == "" {
		owner.Space = a.Space
	}
	return owner
}

// Recipients are the owner and the agent itself: the principals that may make the agent's
// connections.
func (a *Agent) Recipients() protocol.Recipients {
	return protocol.Either(a.owner(), a.ID.Party(a.Space))
}

// tableKey is the key of everything that is stored: ids have no slash.
func tableKey[ID ~string](space protocol.SpaceID, id ID) string {
	return string(space) + "/" + string(id)
}
