package tools

import (
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
)

// A PieceKind is the kind of a [Piece].
type PieceKind string

// The kinds of pieces besides those of [chat.Kind] text, image, audio and video.
const (
	PieceText PieceKind = "text"
	// PieceResource is a resource with its contents, text or data.
	PieceResource PieceKind = "resource"
	// PieceLink is a link to a resource, without its contents.
	PieceLink PieceKind = "resource_link"
)

// A Piece is one part of a tool's output.
type Piece struct {
	Kind     PieceKind
	Text     string
	Data     string // base64
	MIMEType string
	URI      string // of a resource
	Name     string // of a link
}

// Media is the piece as a segment of an image, audio or video. It reports false for
// other kinds.
func (p *Piece) Media() (chat.Segment, bool) {
	kind := string(p.Kind)
	if p.Kind == PieceResource && p.Data != "" {
		kind, _, _ = strings.Cut(p.MIMEType, "/")
	}
	switch kind := chat.Kind(kind); kind {
	case chat.Image, chat.Audio, chat.Video:
		return chat.Segment{Type: kind, MIMEType: p.MIMEType, Data: p.Data}, true
	}
	return chat.Segment{}, false
}

// Read is the piece as text for a model.
func (p *Piece) Read() string {
	if p.URI == "" || p.Text != "" {
		return p.Text
	}
	return "Resource: " + p.URI
}

// Simple reports whether a result is no more than a text, and perhaps the value that it
// is of.
func (r *Result) Simple() bool {
	return r.Status == Success && !r.Output.IsError && r.Err == nil && r.Warning == "" &&
		len(r.Output.Segments) == 0 && len(r.InOrder()) == 0
}

// InOrder returns the pieces of a result in their order. It is nil without pieces, and
// if the text for the model differs from theirs: the text of a failure has a prefix,
// and a long text is cut.
func (r *Result) InOrder() []Piece {
	if r.Status != Success || r.Text != r.Output.Text {
		return nil
	}
	return r.Output.Pieces
}
