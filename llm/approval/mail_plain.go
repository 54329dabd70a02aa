package approval

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"unicode"
	"unicode/utf16"
)

// plain is an approval as an e-mail may show it: each text is a line that hides
// nothing, whoever wrote it, so that none can be taken for another part of the letter.
// It has no nonce: whoever decides asks for that.
func (a Approval) plain() Approval {
	a.Nonce, a.Args = "", plainJSON(a.Args)
	for _, text := range []*string{
		&a.Tool, &a.Title, &a.Source, &a.Risk, &a.Why, &a.Requester, &a.Session, &a.Task, &a.TraceID, &a.DecidedBy, &a.Reason, &a.EditedBy, &a.EditedFor,
	} {
		*text = oneLine(*text)
	}
	a.Roster, a.Changes = oneLines(a.Roster), oneLines(a.Changes)
	votes := make([]Vote, len(a.Votes))
	for i, v := range a.Votes {
		votes[i] = Vote{By: oneLine(v.By), For: oneLine(v.For), At: v.At, Reason: oneLine(v.Reason)}
	}
	a.Votes = votes
	return a
}

func oneLines(texts []string) []string {
	lines := make([]string, len(texts))
	for i, text := range texts {
		lines[i] = oneLine(text)
	}
	return lines
}

// oneLine is a text without line breaks and without what cannot be seen.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if hidden(r) {
			return -1
		}
		return r
	}, strings.Join(strings.Fields(text), " "))
}

// hidden reports whether a character shows nothing, or changes how others show.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}

// plainJSON is the same value on one line, with what cannot be seen as escapes.
func plainJSON(value json.RawMessage) json.RawMessage {
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return json.RawMessage("null")
	}
	var shown bytes.Buffer
	for _, r := range compact.String() {
		if !hidden(r) {
			shown.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&shown, `\u%04x`, unit)
		}
	}
	return shown.Bytes()
}

// maxEncoded is the number of bytes that are in an encoded word of a header.
const maxEncoded = 45

// headerText is a text as the value of a header. One that looks as if it were encoded
// is encoded, so that it shows as it is.
func headerText(text string) string {
	if encoded := mime.QEncoding.Encode("utf-8", text); encoded != text || !strings.Contains(text, "=?") {
		return encoded
	}
	var words []string
	for ; len(text) > 0; text = text[min(len(text), maxEncoded):] { // it is ASCII
		words = append(words, "=?utf-8?b?"+base64.StdEncoding.EncodeToString([]byte(text[:min(len(text), maxEncoded)]))+"?=")
	}
	return strings.Join(words, "\r\n ")
}
