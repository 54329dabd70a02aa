package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
)

// Marshal encodes a request, without the escapes for HTML.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, &chat.Error{Kind: chat.BadRequest, Message: "the request cannot be written as JSON", Cause: err}
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Unsupported is the error of content that a wire cannot carry.
func Unsupported(format string, args ...any) error {
	return chat.Errorf(chat.BadRequest, format, args...)
}

// NamesOf returns the names of all tools of a request: those that it offers and those
// that its history calls.
func NamesOf(r *chat.Request) *Names {
	var list []string
	for _, t := range r.Tools {
		list = append(list, t.Name)
	}
	for _, m := range r.Messages {
		if m.ToolName != "" {
			list = append(list, m.ToolName)
		}
		for _, s := range m.Segments {
			if s.ToolCall != nil {
				list = append(list, s.ToolCall.Name)
			}
		}
	}
	return NewNames(ToolNames, list...)
}

// TextOf is all text of a message. Components to render are text to a model.
func TextOf(m chat.Message) string {
	var b strings.Builder
	for _, s := range m.Segments {
		switch s.Type {
		case chat.Text:
			b.WriteString(s.Text)
		case chat.UI:
			b.Write(s.UI)
		}
	}
	return b.String()
}

// IsURL reports whether a segment's data is a URL and not base64.
func IsURL(data string) bool {
	return strings.HasPrefix(data, "https://") || strings.HasPrefix(data, "http://") || strings.HasPrefix(data, "gs://")
}

// DataURL is a segment's data as a URL.
func DataURL(s chat.Segment) string {
	if IsURL(s.Data) || strings.HasPrefix(s.Data, "data:") {
		return s.Data
	}
	return "data:" + s.MIMEType + ";base64," + s.Data
}

// Readable is a message for a provider: in the result of a tool, words stand in the places
// of media that it does not take. Whoever made the result, such as a device or another
// server, does not end the conversation by it.
func Readable(m chat.Message, takes func(s *chat.Segment) bool) chat.Message {
	if m.Role != chat.ToolRole {
		return m
	}
	cloned := false
	for i := range m.Segments {
		s := &m.Segments[i]
		if s.Type != chat.Image && s.Type != chat.Audio && s.Type != chat.Video || takes(s) {
			continue
		}
		if !cloned {
			m.Segments, cloned = slices.Clone(m.Segments), true
		}
		m.Segments[i] = chat.Segment{Type: chat.Text, Text: fmt.Sprintf("(%s, %.64q, which this model cannot be shown)", s.Type, s.MIMEType)}
	}
	return m
}

// TakesImage reports whether a segment is an image of a type that models are made for.
func TakesImage(s *chat.Segment) bool {
	if s.Type != chat.Image || IsURL(s.Data) {
		return s.Type == chat.Image
	}
	switch s.MIMEType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// AudioFormat is OpenAI's name of a kind of audio.
func AudioFormat(mime string) string {
	switch _, format, _ := strings.Cut(mime, "/"); format {
	case "mpeg":
		return "mp3"
	case "x-wav", "wave", "vnd.wave":
		return "wav"
	default:
		return format
	}
}
