package protocol_test

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestIdentifiersKeepTheirRule(t *testing.T) {
	t.Parallel()
	rule := protocol.AgentID("").Rule()
	for id, want := range map[string]string{
		"route_agent_001":           "",
		"a":                         "",
		"a.b-c:d@e f$":              "",
		strings.Repeat("界", 64):     "",
		"\ufffd":                    "",
		"":                          "must have 1 to 64 characters, has 0",
		strings.Repeat("a", 65):     "must have 1 to 64 characters, has 65",
		"a/b":                       "may not contain '/'",
		"+":                         "may not contain '+'",
		"a#":                        "may not contain '#'",
		"$SYS":                      "may not begin with $",
		"a\x00":                     "may not contain the control character U+0000",
		"a\u0085b":                  "may not contain the control character U+0085",
		"a\x7f":                     "may not contain the control character U+007F",
		"a\xff":                     "is not valid UTF-8",
		"lamp\u202e1":               "may not contain U+202E, which is not seen or changes how others are",
		"lamp\u200b":                "may not contain U+200B, which is not seen or changes how others are",
		"la\u00admp":                "may not contain U+00AD, which is not seen or changes how others are",
		"lamp\ufeff":                "may not contain U+FEFF, which is not seen or changes how others are",
		"lamp\u2028":                "may not contain U+2028, which is not seen or changes how others are",
		"\u3164":                    "may not contain U+3164, which is not seen or changes how others are",
		"a\ufe0f":                   "may not contain U+FE0F, which is not seen or changes how others are",
		"a\U000e0061":               "may not contain U+E0061, which is not seen or changes how others are",
		"a\u200db":                  "may not contain U+200D, which is not seen or changes how others are",
		"k\u0075\u0308che":          "must be in Unicode's composed form (NFC)",
		"küche":                     "",
		"मीटर":                      "",
		"💡":                         "",
		strings.Repeat("界", 100000): "must have 1 to 64 characters, has 100000",
	} {
		if got := rule.Check(id); got != want {
			t.Errorf("%.20q: %q, want %q", id, got, want)
		}
	}
	if got := (protocol.Rule{What: "name", Min: 0, Max: 3}).Check("$/+"); got != "" {
		t.Errorf("a rule that is not for names: %q", got)
	}
}

func TestEveryIdentifierHasARule(t *testing.T) {
	t.Parallel()
	for _, id := range []protocol.Identifier{
		protocol.AgentID(""), protocol.SkillID(""), protocol.CapabilityID(""), protocol.SpaceID(""), protocol.ResourceID(""), protocol.CapID(""),
		protocol.GroupID(""), protocol.DataKey(""), protocol.SceneType(""), protocol.TaskID(""), protocol.ClientID(""), protocol.VFSID(""), protocol.GroupName(""),
	} {
		if r := id.Rule(); r.What == "" || r.Min != 1 || r.Max < 32 || !r.Name {
			t.Errorf("%T: %+v", id, r)
		}
	}
}

func TestSerialsAreSixteenHexadecimalDigits(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]protocol.Serial{
		"8a1b2c3d4e5f6a7b": "8a1b2c3d4e5f6a7b", "8A1B2C3D4E5F6A7B": "8a1b2c3d4e5f6a7b", "0000000000000000": "0000000000000000",
	} {
		if got, err := protocol.ParseSerial(in); err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "8a1b2c", "8a1b2c3d4e5f6a7", "8a1b2c3d4e5f6a7bb", "8a1b2c3d4e5f6a7g", "8a1b2c3d4e5f6a7 ", "0x1b2c3d4e5f6a7b", "8a1b2c3d4e5f6é", "@a1b2c3d4e5f6a7b", "`a1b2c3d4e5f6a7b"} {
		_, err := protocol.ParseSerial(in)
		failure(t, err, protocol.CertificateUnknown)
	}
}

func TestPriorityIsTextInJSON(t *testing.T) {
	t.Parallel()
	for _, p := range []protocol.Priority{protocol.Low, protocol.Medium, protocol.High} {
		text, err := p.MarshalText()
		var back protocol.Priority
		if err != nil || back.UnmarshalText(text) != nil || back != p {
			t.Errorf("%s: %s, %v", p, text, err)
		}
	}
	p := protocol.High
	if p.UnmarshalText([]byte("HIGH")) == nil || p != protocol.High {
		t.Error("HIGH is taken")
	}
	var zero protocol.Priority
	if zero.String() != "medium" {
		t.Error(zero)
	}
}
