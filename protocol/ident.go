package protocol

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Rule limits an identifier. Lengths count characters.
type Rule struct {
	What     string // "skill id", for messages
	Min, Max int
	// Name forbids what cannot be a topic level: / + # NUL and control
	// characters, and a $ in front (PROTOCOL §2).
	Name bool
}

// Identifier is implemented by every identifier type; package commands checks
// parameters of such types without further tags.
type Identifier interface{ Rule() Rule }

// The identifiers of the protocol.
type (
	AgentID      string
	SkillID      string
	CapabilityID string
	SpaceID      string // a tenant: what is not in a caller's spaces does not exist for it
	ResourceID   string
	CapID        string // a channel
	GroupID      string // within a channel
	DataKey      string // of channel data, within a group
	SceneType    string
	TaskID       string
	ClientID     string // an MQTT client's
	VFSID        string
	GroupName    string // a name space of files, unrelated to GroupID
)

// Rule returns the limits of the identifier.
func (AgentID) Rule() Rule      { return Rule{"agent id", 1, 64, true} }
func (SkillID) Rule() Rule      { return Rule{"skill id", 1, 64, true} }      // see AgentID
func (CapabilityID) Rule() Rule { return Rule{"capability id", 1, 64, true} } // see AgentID
func (SpaceID) Rule() Rule      { return Rule{"space id", 1, 64, true} }      // see AgentID
func (ResourceID) Rule() Rule   { return Rule{"resource id", 1, 64, true} }   // see AgentID
func (CapID) Rule() Rule        { return Rule{"cap id", 1, 64, true} }        // see AgentID
func (GroupID) Rule() Rule      { return Rule{"group id", 1, 64, true} }      // see AgentID
func (DataKey) Rule() Rule      { return Rule{"data key", 1, 64, true} }      // see AgentID
func (SceneType) Rule() Rule    { return Rule{"scene type", 1, 32, true} }    // see AgentID
func (TaskID) Rule() Rule       { return Rule{"task id", 1, 64, true} }       // see AgentID
func (ClientID) Rule() Rule     { return Rule{"client id", 1, 256, true} }    // see AgentID
func (VFSID) Rule() Rule        { return Rule{"vfs id", 1, 64, true} }        // see AgentID
func (GroupName) Rule() Rule    { return Rule{"group name", 1, 64, true} }    // see AgentID

// Check says what is wrong with s under the rule, or "" if nothing is.
func (r Rule) Check(s string) string {
	if n := utf8.RuneCountInString(s); n < r.Min || n > r.Max {
		return lengthReason(r.Min, r.Max, n)
	}
	if !utf8.ValidString(s) {
		return "is not valid UTF-8"
	}
	if !r.Name {
		return ""
	}
	if strings.HasPrefix(s, "$") {
		return "may not begin with $"
	}
	for _, c := range s {
		if c == '/' || c == '+' || c == '#' {
			return fmt.Sprintf("may not contain %q", c)
		}
		if unicode.IsControl(c) {
			return fmt.Sprintf("may not contain the control character U+%04X", c)
		}
	}
	return ""
}

// A Serial is a certificate's serial number: exactly 16 hexadecimal digits,
// any case on the wire, lower case inside (PROTOCOL §5).
type Serial string

const serialDigits = 16

// ParseSerial reads a certificate's serial. What is none is 2005.
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
