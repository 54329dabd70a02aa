package topic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of cards.
const (
	maxCard    = 64 << 10 // bytes
	ownerCards = 64       // of one party
	spaceCards = 1024
	// cardChanges is the greatest number of changes and removals of one agent's card in
	// a minute.
	cardChanges = 10
)

// A Card is an agent's published description of itself, as stored. It is immutable.
type Card struct {
	Space protocol.SpaceID `json:"space_id"`
	ID    string           `json:"id"` // org/unit/agent, the client id of the agent
	Owner protocol.Party   `json:"owner"`
	Card  string           `json:"card"` // to the byte: it may be signed
	// Online is true if the client is connected, to the bridge with the id Bridge.
	Online bool   `json:"online,omitempty"`
	Bridge string `json:"bridge,omitempty"`
}

// KeptFor is the party whose budget of records the card uses.
func (c *Card) KeptFor() protocol.Party { return c.Owner }

// status is a2a-status of the card.
func (c *Card) status() string {
	if c.Online {
		return "online"
	}
	return "offline"
}

func key(space protocol.SpaceID, id string) string { return string(space) + "/" + id }

// needed are the fields that a card must have, with the first letters that the JSON of
// their values may begin with.
var needed = map[string]string{
	"name": `"`, "description": `"`, "version": `"`, "capabilities": "{", "defaultInputModes": "[", "defaultOutputModes": "[", "skills": "[", "supportedInterfaces": "[",
}

// keySets returns the URLs of the key sets in a card: of the encryption keys of its
// agent, in extensions, and of the keys of its signatures.
func keySets(text []byte) (list []string, err error) {
	var card struct {
		Capabilities struct {
			Extensions []struct {
				Params struct {
					Security struct {
						KeySet string `json:"jwksUri"`
					} `json:"securityMetadata"`
				} `json:"params"`
			} `json:"extensions"`
		} `json:"capabilities"`
		Signatures []struct {
			Protected string    `json:"protected"`
			Header    signature `json:"header"`
		} `json:"signatures"`
	}
	if err := json.Unmarshal(text, &card); err != nil {
		return nil, err
	}
	for _, e := range card.Capabilities.Extensions {
		list = append(list, e.Params.Security.KeySet)
	}
	for _, s := range card.Signatures {
		var protected signature
		header, err := base64.RawURLEncoding.DecodeString(s.Protected)
		if err == nil {
			err = json.Unmarshal(header, &protected)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, protected.KeySet, s.Header.KeySet)
	}
	return slices.DeleteFunc(list, func(set string) bool { return set == "" }), nil
}

// A signature is the used part of the header of a JWS.
type signature struct {
	KeySet string `json:"jku"`
}

// checkKeys returns the fault of a card that names other keys than trusted ones. All are
// trusted where none are listed.
func checkKeys(text []byte, trusted []string) error {
	if len(trusted) == 0 {
		return nil
	}
	sets, err := keySets(text)
	if err != nil {
		return fmt.Errorf("the keys that the card names cannot be read")
	}
	for _, set := range sets {
		if !slices.Contains(trusted, set) {
			return fmt.Errorf("the key set %.200q of the card is not among a2a.trusted_jwks", set)
		}
	}
	return nil
}

// checkCard returns the fault of a card as an error.
func checkCard(text []byte) error {
	if len(text) > maxCard {
		return fmt.Errorf("a card may have %d bytes", maxCard)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return fmt.Errorf("a card is a JSON object")
	}
	for name, first := range needed {
		if value := fields[name]; len(value) == 0 || value[0] != first[0] {
			return fmt.Errorf("the card has no %s, or it is of another type", name)
		}
	}
	var card struct {
		Name       string `json:"name"`
		Interfaces []struct {
			Binding string `json:"protocolBinding"`
			Version string `json:"protocolVersion"`
			URL     string `json:"url"`
		} `json:"supportedInterfaces"`
		Skills []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"skills"`
	}
	if json.Unmarshal(text, &card) != nil || card.Name == "" || len(card.Interfaces) == 0 {
		return fmt.Errorf("the card is not of A2A 1.0")
	}
	for i, at := range card.Interfaces {
		if at.Binding == "" || at.Version == "" || at.URL == "" {
			return fmt.Errorf("supportedInterfaces[%d] lacks url, protocolBinding or protocolVersion", i)
		}
	}
	if slices.ContainsFunc(card.Skills, func(s struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}) bool {
		return s.ID == "" || s.Name == ""
	}) {
		return fmt.Errorf("a skill of the card lacks id or name")
	}
	return nil
}
