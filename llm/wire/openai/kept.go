package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	neturl "net/url"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

// Some services require fields back that are not part of Chat Completions: OpenRouter
// the reasoning_details of a message, Google the extra_content of a tool call, which
// holds a thought signature. Other services refuse a request with such fields, so their
// data has an origin of its own for each service.

// ownOrigin is the origin of data that goes back to this service alone.
func (p *Provider) ownOrigin() string {
	host := p.Client.BaseURL
	if u, err := neturl.Parse(host); err == nil {
		host = u.Hostname()
	}
	sum := sha256.Sum256([]byte(host)) // callers see the origin, but must not see the address of the service
	return Origin + "@" + hex.EncodeToString(sum[:4])
}

// own is the opaque data of a segment for this service, nil for none.
func (p *Provider) own(s chat.Segment, parts *wire.Parts) json.RawMessage {
	if s.Opaque == nil || len(s.Opaque.Data) == 0 || s.Opaque.Origin != p.ownOrigin() || !parts.With(wire.Replay) {
		return nil
	}
	return s.Opaque.Data
}

// maxDetails is the greatest size of the reasoning_details of one answer, in bytes.
const maxDetails = 16 << 20

// details are the reasoning_details of an answer, which may come in pieces.
type details struct {
	list []*detail
	size int
}

// A detail is an entry, with the texts that its pieces have added.
type detail struct {
	fields map[string]any
	texts  map[string]*strings.Builder
}

func (d *details) add(pieces []json.RawMessage) error {
	for _, raw := range pieces {
		if d.size += len(raw); d.size > maxDetails {
			return chat.Errorf(chat.BadResponse, "the answer is too large")
		}
		var piece map[string]any
		if json.Unmarshal(raw, &piece) != nil || len(piece) == 0 {
			continue
		}
		if n := len(d.list); n == 0 || !d.list[n-1].extend(piece) {
			d.list = append(d.list, &detail{fields: piece, texts: make(map[string]*strings.Builder)})
		}
	}
	return nil
}

// extend adds a piece to the entry before it, and reports whether it belongs to it.
func (d *detail) extend(piece map[string]any) bool {
	if !same(d.fields["type"], piece["type"]) || !same(d.fields["index"], piece["index"]) || d.fields["type"] == "reasoning.encrypted" {
		return false
	}
	for key, value := range piece {
		more, isText := value.(string)
		switch {
		case isText && (key == "text" || key == "summary"):
			d.write(key, more)
		case value != nil:
			d.fields[key] = value
		}
	}
	return true
}

func (d *detail) write(key, more string) {
	text := d.texts[key]
	if text == nil {
		text = new(strings.Builder)
		before, _ := d.fields[key].(string)
		text.WriteString(before)
		d.texts[key] = text
	}
	text.WriteString(more)
}

// same reports whether two values from JSON are the same text or number, or
// both missing. Lists and objects, which Go does not compare, never are.
func same(a, b any) bool {
	switch a.(type) {
	case nil, string, float64, bool:
		return a == b
	}
	return false
}

// kept is the opaque data of the details, nil for none.
func (d *details) kept(origin string) (*chat.Opaque, error) {
	if len(d.list) == 0 {
		return nil, nil //nolint:nilnil // nothing is nothing
	}
	list := make([]map[string]any, len(d.list))
	for i, entry := range d.list {
		list[i] = entry.fields
		for key, text := range entry.texts {
			list[i][key] = text.String()
		}
	}
	raw, err := wire.Marshal(list)
	return &chat.Opaque{Origin: origin, Data: raw}, err
}
