package mcp

import (
	"encoding/json"
	"testing"

	"github.com/aibridge/aibridge/llm/tools"
)

func TestPiecesAreShownAsTheirServerGaveThem(t *testing.T) {
	r := &tools.Result{Status: tools.Success, Text: "see", Output: tools.Output{Text: "see", Pieces: []tools.Piece{
		{Kind: "image", MIMEType: "image/png", Data: "YQ=="},
		{Kind: tools.PieceText, Text: "see"},
		{Kind: tools.PieceResource, URI: "file:///n", MIMEType: "text/plain", Text: "note"},
		{Kind: tools.PieceResource, URI: "file:///z", MIMEType: "application/zip", Data: "Zm91cg=="},
		{Kind: tools.PieceLink, URI: "file:///l", Name: "link"},
	}}}
	raw, err := json.Marshal(resultOf(r))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"content":[{"type":"image","mimeType":"image/png","data":"YQ=="},{"type":"text","text":"see"},` +
		`{"type":"resource","resource":{"uri":"file:///n","mimeType":"text/plain","text":"note"}},` +
		`{"type":"resource","resource":{"uri":"file:///z","mimeType":"application/zip","blob":"Zm91cg=="}},` +
		`{"type":"resource_link","uri":"file:///l","name":"link"}]}`
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
	r.Text = "s [2 bytes were left out]"
	if raw, _ := json.Marshal(resultOf(r)); len(r.InOrder()) != 0 || string(raw) == want {
		t.Errorf("a text that was cut is shown whole: %s", raw)
	}
}
