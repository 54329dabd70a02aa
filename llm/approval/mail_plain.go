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

// plain is an approval for an e-mail: each text is one line without invisible
// characters, whoever wrote it, so that none can be taken for another part of the
// letter. It has no nonce; deciders get that by a command.
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

// oneLine is a text without line breaks and invisible characters.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if hidden(r) {
			return -1
		}
		return r
	}, strings.Join(strings.Fields(text), " "))
}

// hidden reports whether a character is invisible, or changes the display of others.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}

// plainJSON is the same value on one line, with invisible characters as escapes.
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

// maxEncoded is the greatest number of bytes in an encoded word of a header.
const maxEncoded = 45

// headerText encodes a text for a header. A text in the form of an encoded word is
// encoded as well, so that it is shown unchanged.
func headerText(text string) string {
	if encoded := mime.QEncoding.Encode("utf-8", text); encoded != text || !strings.Contains(text, "=?") {
		return encoded
	}
	var words []string
	for ; len(text) > 0; text = text[min(len(text), maxEncoded):] { // the text is ASCII
		words = append(words, "=?utf-8?b?"+base64.StdEncoding.EncodeToString([]byte(text[:min(len(text), maxEncoded)]))+"?=")
	}
	return strings.Join(words, "\r\n ")
}
