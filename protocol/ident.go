package protocol

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A Rule limits an identifier. Lengths count characters.
type Rule struct {
	What     string // "skill id", for messages
	Min, Max int
	// Name forbids what cannot be a topic level, / + # NUL and control
	// characters, and a $ in front (docs/protocol.md#topics), and what looks
	// like another name: characters that are [Hidden], and other forms than
	// NFC.
	Name bool
	// Visible forbids control characters and those that are [Hidden].
	Visible bool
}

// Identifier is implemented by every identifier type; package commands checks
// parameters of such types without further tags.
type Identifier interface{ Rule() Rule }

// Check says why the rule refuses s, or "" if it does not.
func (r Rule) Check(s string) string {
	if n := utf8.RuneCountInString(s); n < r.Min || n > r.Max {
		return lengthReason(r.Min, r.Max, n)
	}
	if !utf8.ValidString(s) {
		return "is not valid UTF-8"
	}
	if r.Name && strings.HasPrefix(s, "$") {
		return "may not begin with $"
	}
	for _, c := range s {
		switch {
		case r.Name && (c == '/' || c == '+' || c == '#'):
			return fmt.Sprintf("may not contain %q", c)
		case !r.Name && !r.Visible:
		case unicode.IsControl(c):
			return controlReason(c)
		case Hidden(c):
			return hiddenReason(c)
		}
	}
	if r.Name && !norm.NFC.IsNormalString(s) {
		return "must be in Unicode's composed form (NFC)"
	}
	return ""
}

func controlReason(c rune) string {
	return fmt.Sprintf("may not contain the control character U+%04X", c)
}

func hiddenReason(c rune) string {
	return fmt.Sprintf("may not contain U+%04X, which is not seen or changes how others are", c)
}

func nameRule(what string, longest int) Rule {
	return Rule{What: what, Min: 1, Max: longest, Name: true}
}

// An AgentID names an agent.
type AgentID string

// Rule implements [Identifier].
func (AgentID) Rule() Rule { return nameRule("agent id", 64) }

// A SkillID names a skill.
type SkillID string

// Rule implements [Identifier].
func (SkillID) Rule() Rule { return nameRule("skill id", 64) }

// A CapabilityID names what a skill can do.
type CapabilityID string

// Rule implements [Identifier].
func (CapabilityID) Rule() Rule { return nameRule("capability id", 64) }

// A SpaceID names a tenant: things outside of a caller's spaces do not exist for it.
type SpaceID string

// Rule implements [Identifier].
func (SpaceID) Rule() Rule { return nameRule("space id", 64) }

// A ResourceID names a resource.
type ResourceID string

// Rule implements [Identifier].
func (ResourceID) Rule() Rule { return nameRule("resource id", 64) }

// A CapID names a channel.
type CapID string

// Rule implements [Identifier].
func (CapID) Rule() Rule { return nameRule("cap id", 64) }

// A GroupID names a group within a channel.
type GroupID string

// Rule implements [Identifier].
func (GroupID) Rule() Rule { return nameRule("group id", 64) }

// A DataKey names a value of channel data, within a group.
type DataKey string

// Rule implements [Identifier].
func (DataKey) Rule() Rule { return nameRule("data key", 64) }

// A SceneType names a kind of scene.
type SceneType string

// Rule implements [Identifier].
func (SceneType) Rule() Rule { return nameRule("scene type", 32) }

// A TaskID names a task.
type TaskID string

// Rule implements [Identifier].
func (TaskID) Rule() Rule { return nameRule("task id", 64) }

// A ClientID names an MQTT client.
type ClientID string

// Rule implements [Identifier].
func (ClientID) Rule() Rule { return nameRule("client id", 256) }

// A VFSID names a file service.
type VFSID string

// Rule implements [Identifier].
func (VFSID) Rule() Rule { return nameRule("vfs id", 64) }

// A GroupName names a space of files; it has nothing to do with a GroupID.
type GroupName string

// Rule implements [Identifier].
func (GroupName) Rule() Rule { return nameRule("group name", 64) }

// A Serial is a certificate's serial number: exactly 16 hexadecimal digits, any
// case on the wire, lower case inside (docs/protocol.md#certificates).
type Serial string

const serialDigits = 16

// ParseSerial reads a certificate's serial. Any other text is 2005.
func ParseSerial(s string) (Serial, error) {
	if len(s) != serialDigits {
		return "", malformedSerial()
	}
	for _, c := range []byte(s) {
		if !isDigit(c) && c|0x20-'a' >= 6 {
			return "", malformedSerial()
		}
	}
	return Serial(strings.ToLower(s)), nil
}

func malformedSerial() *Error {
	const reason = "must have 16 hexadecimal digits"
	return Errorf(CertificateUnknown, "malformed certificate serial: %s", reason).With("reason", reason)
}
