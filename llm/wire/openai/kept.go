package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	neturl "net/url"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

// Some services want more back than this wire has a place for: OpenRouter its
// reasoning_details with the message, Google the extra_content of a tool call,
// which holds a thought signature. Others refuse a request with such fields, so
// that they are kept under an origin of their service's own.

// ownOrigin is the origin of what goes back to this very service.
func (p *Provider) ownOrigin() string {
	host := p.Client.BaseURL
	if u, err := neturl.Parse(host); err == nil {
		host = u.Hostname()
	}
	sum := sha256.Sum256([]byte(host)) // where a service is, is not for those who get its answers
	return Origin + "@" + hex.EncodeToString(sum[:4])
}

// own is what a segment has kept for this very service, nil if nothing.
func (p *Provider) own(s chat.Segment) json.RawMessage {
	if s.Opaque == nil || len(s.Opaque.Data) == 0 || s.Opaque.Origin != p.ownOrigin() {
		return nil
	}
	return s.Opaque.Data
}

// maxDetails bounds the reasoning_details of one answer, in bytes.
const maxDetails = 16 << 20

// details are the reasoning_details of an answer, which may come in pieces.
type details struct {
	list []map[string]any
	size int
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
		if n := len(d.list); n == 0 || !extend(d.list[n-1], piece) {
			d.list = append(d.list, piece)
		}
	}
	return nil
}

// extend adds a piece to the entry before it, if it is one of its pieces.
func extend(entry, piece map[string]any) bool {
	if entry["type"] != piece["type"] || entry["index"] != piece["index"] || entry["type"] == "reasoning.encrypted" {
		return false
	}
	for key, value := range piece {
		before, _ := entry[key].(string)
		more, isText := value.(string)
		switch {
		case isText && (key == "text" || key == "summary"):
			entry[key] = before + more
		case value != nil:
			entry[key] = value
		}
	}
	return true
}

// kept is what is to be kept of them, nil if there are none.
func (d *details) kept(origin string) (*chat.Opaque, error) {
	if len(d.list) == 0 {
		return nil, nil //nolint:nilnil // nothing is nothing
	}
	raw, err := wire.Marshal(d.list)
	return &chat.Opaque{Origin: origin, Data: raw}, err
}
