package selector

import (
	"fmt"
	"unicode/utf8"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of the tags of one agent.
const (
	MaxTags     = 32
	MaxTagName  = 63   // characters
	MaxTagValue = 128  // characters
	maxTagsSize = 2048 // bytes of all names and values
)

// Tags describe an agent, by name.
type Tags map[string]string

// CheckTag returns the fault of the name of a tag, "" if it is valid.
func CheckTag(name string) string {
	bad := name == "" || len(name) > MaxTagName || !alphanumeric(name[0]) || !alphanumeric(name[len(name)-1])
	for i := 0; i < len(name) && !bad; i++ {
		bad = !letter(name[i])
	}
	if bad {
		return fmt.Sprintf("has the name %.80q; names of tags have 1 to %d letters, digits, _ and -, and begin and end with a letter or digit", name, MaxTagName)
	}
	return ""
}

func alphanumeric(c byte) bool { return letter(c) && c != '_' && c != '-' }

// Check returns the error of bad tags in a parameter.
func (t Tags) Check(param string) error {
	if len(t) > MaxTags {
		return protocol.InvalidParam(param, fmt.Sprintf("may have %d tags, has %d", MaxTags, len(t)))
	}
	size := 0
	for name, value := range t {
		if reason := CheckTag(name); reason != "" {
			return protocol.InvalidParam(param, reason)
		}
		if n := utf8.RuneCountInString(value); n > MaxTagValue || protocol.CheckText(value, false) != "" {
			return protocol.InvalidParam(param+"."+name, fmt.Sprintf("must have up to %d characters in one line, none of them control characters or hidden ones", MaxTagValue))
		}
		size += len(name) + len(value)
	}
	if size > maxTagsSize {
		return protocol.InvalidParam(param, fmt.Sprintf("names and values may have %d bytes together, have %d", maxTagsSize, size))
	}
	return nil
}
