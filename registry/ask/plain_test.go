package ask

import (
	"reflect"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestWordsOfAgentsArePlain(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"über 30 °C 🔥 👩\u200d🔧":      "über 30 °C 🔥 👩\u200d🔧",
		"\x1b[31mred\x1b[0m\a":       "[31mred[0m",
		"two\nlines\u2028more":       "two lines more",
		"file\u202egnp.exe":          "filegnp.exe",
		"soft\u00adhyphen\u200bzero": "softhyphenzero",
		"\xff":                       "\ufffd",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := plain(strings.Repeat("ä", maxWords)); len(got) > maxWords+len("…") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestNothingOfAnAgentsErrorMovesACursor(t *testing.T) {
	f := target{"agent", "boiler"}.refused(&protocol.Error{
		Code: "30\x1b6", Message: "\x1b[2J",
		Details: map[string]any{"k\x07": []any{"\x1bv", map[string]any{"\u202ea": "b\r\n"}}, "n": 1.0},
	})
	want := map[string]any{"k": []any{"v", map[string]any{"a": "b"}}, "n": 1.0, "agent_id": "boiler", "agent_code": "306"}
	if f.err.Message != "[2J" || !reflect.DeepEqual(f.err.Details, want) {
		t.Errorf("%q %v, want %v", f.err.Message, f.err.Details, want)
	}
}
