package ask

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWords is the greatest length of the text of an agent's error, in bytes.
const maxWords = 2000

// plain is a text of an agent for people: on one line, without characters that move a
// terminal's cursor or change the direction of writing, and shortened.
func plain(text string) string {
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	if !strings.ContainsFunc(text, misleading) && utf8.ValidString(text) {
		return text
	}
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t' || c == '\u2028' || c == '\u2029':
			return ' '
		case misleading(c):
			return -1
		}
		return c
	}, strings.ToValidUTF8(text, "\ufffd")))
}

func misleading(c rune) bool {
	return unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp) && c != '\u200d' // which joins emoji
}

// plainValue is a JSON value with its texts made plain.
func plainValue(v any) any {
	switch v := v.(type) {
	case string:
		return plain(v)
	case []any:
		for i := range v {
			v[i] = plainValue(v[i])
		}
		return v
	case map[string]any:
		clean := make(map[string]any, len(v))
		for key, value := range v {
			clean[plain(key)] = plainValue(value)
		}
		return clean
	}
	return v
}
