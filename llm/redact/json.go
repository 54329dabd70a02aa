package redact

import (
	"bytes"
	"encoding/json"
	"strings"
)

// eachString changes the strings of a JSON document, names of fields too, and leaves all
// other bytes as they are. Input that is not JSON stays unchanged.
func eachString(raw json.RawMessage, change func(string) string) json.RawMessage {
	if bytes.IndexByte(raw, '"') < 0 || !json.Valid(raw) {
		return raw
	}
	var out []byte // nil until something changes
	done := 0
	for at := 0; at < len(raw); at++ {
		if raw[at] != '"' {
			continue
		}
		end := stringEnd(raw, at)
		var text string
		if json.Unmarshal(raw[at:end], &text) == nil {
			if changed := change(text); changed != text {
				out = append(append(out, raw[done:at]...), quote(changed)...)
				done = end
			}
		}
		at = end - 1
	}
	if out == nil {
		return raw
	}
	return append(out, raw[done:]...)
}

// stringEnd is the index behind the closing quote of the string that begins at an
// index.
func stringEnd(raw []byte, at int) int {
	for at++; raw[at] != '"'; at++ {
		if raw[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// quote writes a string as JSON.
func quote(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // of a string never fails
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// restoreJSON puts the values back into the text of a JSON document, or of a
// part of one. Placeholders stand in strings, where values need escapes.
func restoreJSON(m *Mask, text string) string {
	if len(m.byName) == 0 || strings.IndexByte(text, '[') < 0 {
		return text
	}
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := m.byName[strings.ToLower(name)]; ok {
			quoted := quote(value)
			return string(quoted[1 : len(quoted)-1])
		}
		return name
	})
}
