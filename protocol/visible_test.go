package protocol_test

import (
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestTextsForPeopleHoldNothingThatMisleads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Lamp in the hall": "",
		"灯 ❤️ 👩‍🚒":         "", // with a variation selector and a joiner
		"می‌خواهم":         "", // with a non-joiner
		"":                 "",
		"a\x1b[31mred":     "may not contain the control character U+001B",
		"two\nlines":       "may not contain the control character U+000A",
		"pay\u202eexe.txt": "may not contain U+202E, which is not seen or changes how others are",
		"la\u00admp":       "may not contain U+00AD, which is not seen or changes how others are",
		"x\U000e0061":      "may not contain U+E0061, which is not seen or changes how others are",
	} {
		if got := protocol.CheckText(text, false); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := protocol.CheckText("two\n\tlines", true); got != "" {
		t.Errorf("lines: %q", got)
	}
	if protocol.CheckText("a\rb", true) == "" {
		t.Error("a carriage return is a line end")
	}
}

func TestAClientIDMayHoldAnythingThatIsSeen(t *testing.T) {
	t.Parallel()
	rule := protocol.Rule{Min: 1, Max: 256, Visible: true}
	for id, good := range map[string]bool{"a/b#c+d$": true, "ku\u0308che": true, "a\u200bb": false, "a\x01": false} {
		if got := rule.Check(id); (got == "") != good {
			t.Errorf("%q: %q", id, got)
		}
	}
}
