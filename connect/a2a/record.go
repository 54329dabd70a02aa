package a2a

import (
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// An Agent is an agent elsewhere, as stored. It is immutable.
type Agent struct {
	ID    protocol.AgentID `json:"agent_id"`
	Space protocol.SpaceID `json:"space_id"`
	URL   string           `json:"url"` // of its card
	Owner protocol.Party   `json:"owner"`

	Credential []byte `json:"credential,omitempty"` // value of the header Authorization, sealed
	Extended   bool   `json:"extended,omitempty"`   // its extended card is the one that counts
	Risk       string `json:"risk,omitempty"`
	TimeoutMS  int64  `json:"timeout_ms,omitempty"`

	Card json.RawMessage `json:"card,omitempty"` // as it was read last, in its canonical form
	// Publisher is the principal that has published the card on MQTT. A card of HTTP
	// has none: its host shows the owner.
	Publisher protocol.Party `json:"publisher,omitzero"`
	Approved  string         `json:"approved,omitempty"` // digest of the card that was approved
	By        string         `json:"approved_by,omitempty"`

	AddedAt    int64  `json:"added_at"` // Unix milliseconds
	ApprovedAt int64  `json:"approved_at,omitempty"`
	ReadAt     int64  `json:"read_at,omitempty"` // when its card was last another one
	Problem    string `json:"problem,omitempty"` // why it cannot be used
}

// KeptFor is the party whose budget of records the agent uses.
func (a *Agent) KeptFor() protocol.Party { return a.Owner }

// A State says whether an agent can be used.
type State string

// The states of agents.
const (
	StateNew      State = "new"      // its card was not approved yet
	StateApproved State = "approved" // its card is the one that was approved
	StateChanged  State = "changed"  // its card is another one than was approved
)

// digest is the SHA-256 of the agent's card and its publisher, "" without a card:
// the same card of another publisher needs an approval of its own.
func (a *Agent) digest() string {
	switch {
	case len(a.Card) == 0:
		return ""
	case a.Publisher.ID == "":
		return digestOf(a.Card)
	}
	return digestOf([]byte(a.Publisher.String() + "\n" + string(a.Card)))
}

func (a *Agent) state() State {
	switch {
	case a.Approved == "":
		return StateNew
	case a.Approved == a.digest():
		return StateApproved
	}
	return StateChanged
}

// card is the agent's card, nil if there is none that can be used.
func (a *Agent) card() *Card {
	if len(a.Card) == 0 {
		return nil
	}
	c, _, err := readCard(a.Card)
	if err != nil {
		return nil
	}
	return c
}

// key is the key of an agent's record.
func key(space protocol.SpaceID, id protocol.AgentID) string { return string(space) + "/" + string(id) }

// purpose is the purpose that an agent's credential is sealed for: the credential of
// one agent is of no use to another.
func purpose(space protocol.SpaceID, id protocol.AgentID, url string) string {
	return "a2a agent " + key(space, id) + " " + origin(url)
}
