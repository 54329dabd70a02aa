package a2a

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of cards.
const (
	maxCard   = 256 << 10 // bytes
	maxSkills = 99        // that become capabilities; one more is for plain messages
)

// Bindings of A2A by which agents are reached.
const (
	bindingRPC  = "JSONRPC"
	bindingREST = "HTTP+JSON"
	bindingMQTT = "MQTT5+JSONRPC"
)

// catalogue is the extension by which another AI Bridge tells the schemas of its
// skills.
const catalogue = "urn:aibridge:a2a:catalogue:v1"

// A Card is an agent's description of itself, as far as it is read here. Fields that
// are not read are part of its digest all the same.
type Card struct {
	Name         string       `json:"name"`
	Description  string       `json:"description"`
	Version      string       `json:"version"`
	Interfaces   []Interface  `json:"supportedInterfaces"`
	Capabilities Capabilities `json:"capabilities"`
	Skills       []Skill      `json:"skills"`
}

// An Interface is an address of an agent, and the binding that is spoken there.
type Interface struct {
	URL     string `json:"url"`
	Binding string `json:"protocolBinding"`
	Tenant  string `json:"tenant"`
	Version string `json:"protocolVersion"`
}

// Capabilities are the optional parts of the protocol that an agent supports.
type Capabilities struct {
	Streaming  bool        `json:"streaming"`
	Extended   bool        `json:"extendedAgentCard"`
	Extensions []Extension `json:"extensions"`
}

// An Extension is one of the protocol that an agent knows.
type Extension struct {
	URI      string          `json:"uri"`
	Required bool            `json:"required"`
	Params   json.RawMessage `json:"params"`
}

// A Skill is one thing an agent says it can do.
type Skill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Examples    []string `json:"examples"`
}

// readCard reads a card, and returns it with its text in the form that its digest is
// made of: without spaces, the members of objects in the order of their names.
func readCard(text []byte) (*Card, json.RawMessage, error) {
	if len(text) > maxCard {
		return nil, nil, fmt.Errorf("the card has more than %d bytes", maxCard)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var whole map[string]any
	if err := decoder.Decode(&whole); err != nil || whole == nil {
		return nil, nil, fmt.Errorf("the card is no JSON object")
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, nil, fmt.Errorf("there is more than a card")
	}
	canonical, err := json.Marshal(whole)
	if err != nil {
		return nil, nil, err
	}
	c := new(Card)
	if err := json.Unmarshal(canonical, c); err != nil {
		return nil, nil, fmt.Errorf("the card is not of A2A 1.0: %s", line(err.Error(), 200))
	}
	return c, canonical, c.check(whole)
}

// check returns an error with the reason if an agent with the card cannot be used.
func (c *Card) check(whole map[string]any) error {
	switch {
	case line(c.Name, 128) == "":
		return fmt.Errorf("the card has no name")
	case len(c.Interfaces) == 0 && whole["url"] != nil:
		return fmt.Errorf("the card is of a version of A2A before 1.0, which is not spoken here")
	}
	for _, e := range c.Capabilities.Extensions {
		if e.Required && e.URI != catalogue {
			return fmt.Errorf("the agent requires the extension %s, which is not known here", line(e.URI, 200))
		}
	}
	return nil
}

// usable is the first address of the agent that can be used, over MQTT or HTTP.
func (c *Card) usable(mqtt bool) (*Interface, error) {
	for i := range c.Interfaces {
		if at := &c.Interfaces[i]; at.current() && (mqtt && at.onMQTT() || !mqtt && at.onHTTP()) {
			return at, nil
		}
	}
	if mqtt {
		return nil, fmt.Errorf("the card has no interface with version 1.0 in the binding %s", bindingMQTT)
	}
	return nil, fmt.Errorf("the card has no interface with version 1.0 in the binding JSONRPC or HTTP+JSON")
}

// current reports whether an interface is of a version that is spoken here.
func (i *Interface) current() bool { return i.Version == "1" || strings.HasPrefix(i.Version, "1.") }

// onMQTT reports whether an interface is one of A2A over MQTT. The binding may be named
// by a URI (A2A 1.0, 5.8).
func (i *Interface) onMQTT() bool { return strings.Contains(strings.ToUpper(i.Binding), "MQTT") }

// onHTTP reports whether an interface is of a binding of HTTP that is spoken here.
func (i *Interface) onHTTP() bool {
	u, err := url.Parse(i.URL)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.Fragment == "" &&
		(i.Binding == bindingRPC || i.Binding == bindingREST)
}

// digestOf is the digest that a card is approved by, hexadecimal.
func digestOf(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// schemas are those of the skills, of an agent that tells them.
func (c *Card) schemas() map[string]json.RawMessage {
	for _, e := range c.Capabilities.Extensions {
		var params struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		}
		if e.URI == catalogue && json.Unmarshal(e.Params, &params) == nil {
			return params.Schemas
		}
	}
	return nil
}

// origin is the scheme, the host and the port of a URL.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// line is the beginning of a stranger's text, on one line and without invisible
// characters.
func line(text string, most int) string {
	var b strings.Builder
	for _, word := range strings.Fields(strings.ToValidUTF8(text, "")) {
		word = strings.Map(func(c rune) rune {
			if protocol.Hidden(c) || c < ' ' || c >= 0x7f && c < 0xa0 {
				return -1
			}
			return c
		}, word)
		if word == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
		if b.Len() > most {
			break
		}
	}
	return short(b.String(), most)
}

// short is at most so many bytes of a text.
func short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, most-len("…"))], "") + "…"
}
