package protocol

import "fmt"

// A Priority orders requests when workers are short (docs/protocol.md#request).
// As text, and so in JSON, it is low, medium or high.
type Priority uint8

// The priorities. The zero value is the default.
const (
	Medium Priority = iota
	High
	Low
)

// ParsePriority reads low, medium or high.
func ParsePriority(s string) (Priority, bool) {
	switch s {
	case "medium":
		return Medium, true
	case "high":
		return High, true
	case "low":
		return Low, true
	}
	return Medium, false
}

// String is the priority as it is written on the wire.
func (p Priority) String() string {
	switch p {
	case High:
		return "high"
	case Low:
		return "low"
	}
	return "medium"
}

// MarshalText implements [encoding.TextMarshaler].
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Priority) UnmarshalText(text []byte) error {
	parsed, ok := ParsePriority(string(text))
	if !ok {
		return fmt.Errorf("priority must be low, medium or high, is %q", text)
	}
	*p = parsed
	return nil
}
