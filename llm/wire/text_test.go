package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func join(t testing.TB, pieces ...string) string {
	t.Helper()
	var j Joiner
	var b strings.Builder
	for _, p := range pieces {
		var piece struct{ Text Text }
		if err := json.Unmarshal([]byte(`{"Text":`+p+`}`), &piece); err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		got := j.Add(piece.Text)
		if !utf8.ValidString(got) {
			t.Errorf("%s gives %q, which is not UTF-8", p, got)
		}
		b.WriteString(got)
	}
	return b.String() + j.End()
}

func TestTextInPiecesIsPutTogether(t *testing.T) {
	for want, pieces := range map[string][]string{
		"hello":                {`"hel"`, `"lo"`},
		"a\"\\/\b\f\n\r\tz":    {`"a\"\\\/\b\f\n\r\tz"`},
		"":                     {`null`, `""`},
		"😀!":                   {"\"\xf0\x9f\"", "\"\x98\x80!\""},
		"x😀":                   {`"x\ud83d"`, `"\ude00"`},
		"😀😀":                   {`"\ud83d\ude00"`, `"😀"`},
		"\ufffda":              {`"\ud83d"`, `"a"`},
		"\ufffd":               {`"\ude00"`},
		"\ufffd\ufffdé":        {"\"\xf0\x9f\"", `"é"`},
		"end\ufffd":            {`"end\ud83d"`},
		"ÿ\u20ac":              {`"\u00ff\u20AC"`},
		"é":                    {"\"\xc3\"", "\"\xa9\""},
		strings.Repeat("語", 3): {"\"\xe8\"", "\"\xaa\"", "\"\x9e語\xe8\xaa\"", "\"\x9e\""},
	} {
		if got := join(t, pieces...); got != want {
			t.Errorf("%q gives %q, want %q", pieces, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a😀b", 2)
	f.Add("é\\\"\n", 1)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		if cut < 0 || cut > len(text) || !utf8.ValidString(text) {
			return
		}
		// Wherever the bytes of a text are cut, it comes out whole.
		var j Joiner
		got := j.Add(Text(text[:cut])) + j.Add(Text(text[cut:])) + j.End()
		if got != text {
			t.Fatalf("cut at %d, %q gives %q", cut, text, got)
		}
		// And JSON is read as encoding/json reads it.
		encoded, _ := json.Marshal(text)
		if got := join(t, string(encoded)); got != text {
			t.Fatalf("%s gives %q", encoded, got)
		}
	})
}
