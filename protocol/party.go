package protocol

import (
	"fmt"
	"strings"
)

// A Party identifies a principal, whatever credential it shows this time: an id
// is somebody's only together with a kind and a space. An operator that has
// the id of an agent is not that agent. Parties are compared with ==, but for
// those of records; see [Party.Is].
type Party struct {
	Kind  Kind
	Space SpaceID
	ID    string
}

// Party returns the identity of the principal.
func (p *Principal) Party() Party { return Party{p.Kind, p.Home(), p.ID} }

// Agent is the party that an agent itself is.
func (id AgentID) Party(space SpaceID) Party { return Party{KindAgent, home(space), string(id)} }

// Is reports whether a principal is the party. A party that was read from a
// record of an earlier version may know no kind or space, and is then whoever
// fits what it knows.
func (p Party) Is(who *Principal) bool { return p.Includes(who.Party()) }

// Includes reports whether another party is this one, of which kind and space
// may be unknown.
func (p Party) Includes(o Party) bool {
	return p.ID == o.ID && p.ID != "" && (p.Kind == o.Kind || p.Kind == "") && (p.Space == o.Space || p.Space == "")
}

// Known reports whether the party knows its kind and space, as all do but
// those of records of earlier versions.
func (p Party) Known() bool { return p.Kind != "" && p.Space != "" }

// String is the party as records have it: space/kind/id. No id has a slash.
func (p Party) String() string {
	if p.ID == "" {
		return ""
	}
	text, _ := p.AppendText(make([]byte, 0, p.textLen()))
	return string(text)
}

func (p Party) textLen() int { return len(p.Space) + len(p.Kind) + len(p.ID) + 2 }

// AppendText implements [encoding.TextAppender].
func (p Party) AppendText(b []byte) ([]byte, error) {
	if p.Space != "" || p.Kind != "" {
		b = append(b, p.Space...)
		b = append(b, '/')
	}
	if p.Kind != "" {
		b = append(b, p.Kind...)
		b = append(b, '/')
	}
	return append(b, p.ID...), nil
}

// MarshalText implements [encoding.TextMarshaler].
func (p Party) MarshalText() ([]byte, error) { return p.AppendText(make([]byte, 0, p.textLen())) }

// UnmarshalText implements [encoding.TextUnmarshaler]. Records of earlier
// versions have the id alone, or behind the space.
func (p *Party) UnmarshalText(text []byte) error {
	switch parts := strings.Split(string(text), "/"); len(parts) {
	case 1:
		*p = Party{ID: parts[0]}
	case 2:
		*p = Party{Space: SpaceID(parts[0]), ID: parts[1]}
	case 3:
		*p = Party{Kind: Kind(parts[1]), Space: SpaceID(parts[0]), ID: parts[2]}
	default:
		return fmt.Errorf("%.100q names no party", text)
	}
	return nil
}
