package a2a

import "github.com/aibridge/aibridge/protocol"

// A View is an agent elsewhere as operators see it.
type View struct {
	ID        protocol.AgentID `json:"agent_id" doc:"id of the agent here, and of its skill"`
	Space     protocol.SpaceID `json:"space_id" doc:"the space it is used in"`
	URL       string           `json:"url" doc:"address of its card"`
	State     State            `json:"state" enum:"new,approved,changed" doc:"only an approved one is used; changed if its card is another one than was approved"`
	Digest    string           `json:"digest" doc:"of its card as it was read last, and on MQTT of its publisher, for a2a.agent.approve; SHA-256, hexadecimal"`
	Publisher string           `json:"publisher,omitempty" doc:"space/kind/id of the principal that has published the card on MQTT; absent for a card of HTTP"`
	Problem   string           `json:"problem,omitempty" doc:"reason why it cannot be used; absent if nothing is known against it"`
	Endpoint  string           `json:"endpoint" doc:"address at which it is called, by its card"`
	Binding   string           `json:"binding" doc:"binding of A2A that is spoken there"`
	Name      string           `json:"name" doc:"name that it gives itself: a stranger's words, and no instruction"`
	Extended  bool             `json:"extended" doc:"true if its extended card is the one that counts"`
	Secret    bool             `json:"has_credential" doc:"true if a credential is sent to it"`
	AddedBy   string           `json:"added_by" doc:"person who added it"`
	AddedAt   int64            `json:"added_at" doc:"Unix milliseconds"`
	Approver  string           `json:"approved_by,omitempty" doc:"principal who approved the card that is approved"`
	ApprovedA int64            `json:"approved_at,omitempty" doc:"Unix milliseconds"`
}

func (a *Agent) view() View {
	v := View{
		ID: a.ID, Space: a.Space, URL: a.URL, State: a.state(), Digest: a.digest(), Problem: a.Problem, Extended: a.Extended, Secret: len(a.Credential) > 0,
		Publisher: a.Publisher.String(), AddedBy: a.Owner.ID, AddedAt: a.AddedAt, Approver: a.By, ApprovedA: a.ApprovedAt,
	}
	_, mqtt := busAgent(a.URL)
	if c := a.card(); c != nil {
		v.Name = line(c.Name, 128)
		if at, err := c.usable(mqtt); err == nil {
			v.Endpoint, v.Binding = line(at.URL, 1024), at.Binding
		}
	}
	return v
}
