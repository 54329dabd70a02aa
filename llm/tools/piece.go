package tools

import (
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
)

// A PieceKind says what a [Piece] is.
type PieceKind string

// The kinds of pieces besides those of [chat.Kind] text, image, audio and video.
const (
	PieceText PieceKind = "text"
	// PieceResource is a resource with its contents, text or data.
	PieceResource PieceKind = "resource"
	// PieceLink is a resource that could be read.
	PieceLink PieceKind = "resource_link"
)

// A Piece is one of several that a tool gave back.
type Piece struct {
	Kind     PieceKind
	Text     string
	Data     string // base64
	MIMEType string
	URI      string // of a resource
	Name     string // of a link
}

// Media is the piece as models see or hear it; false if they read it.
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

// Read is the piece as models read it.
func (p *Piece) Read() string {
	if p.URI == "" || p.Text != "" {
		return p.Text
	}
	return "Resource: " + p.URI
}

// InOrder are the pieces of a result in their order, nil if it has none, or if
// not all of them can be shown: a failure says so first, and a long text is cut.
func (r *Result) InOrder() []Piece {
	if r.Status != Success || r.Text != r.Output.Text {
		return nil
	}
	return r.Output.Pieces
}
