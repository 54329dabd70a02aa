package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mozillazg/go-unidecode"
)

// Names maps the names of tools to those of a wire that allows fewer characters, and
// back. It is made for the tools of one request. The same set of names gives the same
// result in any order, so that a provider's prompt cache stays valid.
type Names struct {
	out map[string]string
	in  map[string]string
}

// A Charset is the set of tool names that a wire allows.
type Charset struct {
	Extra  string // besides letters, digits, _ and -
	Max    int    // characters
	Letter bool   // names must begin with a letter or _
}

// ToolNames is the form that all wires allow in the name of a tool, so that a tool has
// the same spelling at every provider, and hints name it as the model does.
var ToolNames = Charset{Max: 64, Letter: true}

// NewNames returns the names of tools on a wire with an allowed form.
func NewNames(allowed Charset, names ...string) *Names {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	claims := make(map[string]int, len(names)) // number of names with the same spelling
	for _, name := range names {
		claims[allowed.fit(name)]++
	}
	n := &Names{out: make(map[string]string, len(names)), in: make(map[string]string, len(names))}
	for _, name := range names {
		fit := allowed.fit(name)
		if fit != name && claims[fit] > 1 || len(allowed.spell(name)) > allowed.Max {
			fit = allowed.marked(name)
			for n.in[fit] != "" || claims[fit] > 0 { // another tool has this name
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

// Decode is the name of the tool that a model calls. An unknown name is returned
// unchanged, for the error to the model.
func (n *Names) Decode(name string) string {
	if inner, ok := n.in[name]; ok {
		return inner
	}
	return name
}

// fit is the spelling of a name, cut to the allowed length.
func (c Charset) fit(name string) string {
	whole := c.spell(name)
	return whole[:min(len(whole), c.Max)]
}

// spell writes a name in Latin letters and replaces forbidden characters by
// underscores.
func (c Charset) spell(name string) string {
	fit := []byte(latin(name))
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
	return string(fit)
}

// latin transliterates a name of any script to ASCII: 灯.打开 is Deng.Da_Kai. A character
// without a reading becomes an underscore.
func latin(name string) string {
	if ascii(name) {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		reading := unidecode.Unidecode(string(r))
		syllable := strings.HasSuffix(reading, " ") // as those of Chinese have
		switch reading = strings.TrimSpace(reading); {
		case reading == "":
			b.WriteByte('_')
			continue
		case syllable && wordEnds(b.String()):
			b.WriteByte('_')
		}
		b.WriteString(strings.ReplaceAll(reading, " ", "_"))
	}
	return b.String()
}

// wordEnds reports whether a text ends in a letter or a digit.
func wordEnds(text string) bool {
	if text == "" {
		return false
	}
	last := text[len(text)-1]
	return last != '_' && letter(last) || '0' <= last && last <= '9'
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func letter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' || b == '_' }

// marked is the name with a hash of its own.
func (c Charset) marked(name string) string {
	sum := sha256.Sum256([]byte(name))
	mark := "_" + hex.EncodeToString(sum[:5])
	fit := c.fit(name)
	return fit[:min(len(fit), c.Max-len(mark))] + mark
}

// Fit replaces forbidden characters, without regard to other names.
func (c Charset) Fit(name string) string {
	if whole := c.spell(name); len(whole) <= c.Max {
		return whole
	}
	return c.marked(name)
}
