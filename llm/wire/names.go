package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Names carries the names of tools to a wire that allows fewer characters,
// and back. It is made for the tools of one request; the same set of names
// gives the same result in any order, so that a provider's prompt cache keeps.
type Names struct {
	out map[string]string
	in  map[string]string
}

// A Charset is what a wire allows in the name of a tool.
type Charset struct {
	Extra  string // besides letters, digits, _ and -
	Max    int    // characters
	Letter bool   // names must begin with a letter or _
}

// NewNames makes the names of the request's tools, and of those that its
// history calls, fit a wire.
func NewNames(allowed Charset, names ...string) *Names {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	claims := make(map[string]int, len(names)) // on a name of the wire
	for _, name := range names {
		claims[allowed.fit(name)]++
	}
	n := &Names{out: make(map[string]string, len(names)), in: make(map[string]string, len(names))}
	for _, name := range names {
		fit := allowed.fit(name)
		if fit != name && claims[fit] > 1 || len(name) > allowed.Max {
			fit = allowed.marked(name)
			for n.in[fit] != "" || claims[fit] > 0 { // somebody gave a tool the name that this one would get
				fit = allowed.marked(fit + name)
			}
		}
		n.out[name], n.in[fit] = fit, name
	}
	return n
}

// Encode is a tool's name on the wire.
func (n *Names) Encode(name string) string {
	if fit, ok := n.out[name]; ok {
		return fit
	}
	return name
}

// Decode is the name of the tool that a model calls. One that is not known is
// returned as it came, for the error that the model gets.
func (n *Names) Decode(name string) string {
	if inner, ok := n.in[name]; ok {
		return inner
	}
	return name
}

// fit replaces what is not allowed by underscores.
func (c Charset) fit(name string) string {
	fit := []byte(name)
	for i, b := range fit {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '_', b == '-', strings.IndexByte(c.Extra, b) >= 0:
		default:
			fit[i] = '_'
		}
	}
	if len(fit) == 0 || c.Letter && !letter(fit[0]) {
		fit = append([]byte{'_'}, fit...)
	}
	return string(fit[:min(len(fit), c.Max)])
}

func letter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' || b == '_' }

// marked is the name with a mark that no other name has.
func (c Charset) marked(name string) string {
	sum := sha256.Sum256([]byte(name))
	mark := "_" + hex.EncodeToString(sum[:5])
	fit := c.fit(name)
	return fit[:min(len(fit), c.Max-len(mark))] + mark
}

// Fit replaces what is not allowed, without regard to other names.
func (c Charset) Fit(name string) string {
	if fit := c.fit(name); len(name) <= c.Max {
		return fit
	}
	return c.marked(name)
}
