package servers

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestContentOfEveryKindIsTaken(t *testing.T) {
	r := read(CallParams{}, &sdk.CallToolResult{Content: []sdk.Content{
		&sdk.TextContent{Text: "one"},
		&sdk.ImageContent{MIMEType: "image/png", Data: []byte("a")},
		&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("b")},
		&sdk.ResourceLink{URI: "file:///link"},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///text", MIMEType: "text/plain", Text: "two"}},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///film", MIMEType: "video/mp4", Blob: []byte("c")}},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///zip", MIMEType: "application/zip", Blob: []byte("four")}},
		&sdk.EmbeddedResource{},
	}})
	if want := "one\nResource: file:///link\ntwo\nResource: file:///zip (application/zip, 4 bytes)"; r.Text != want {
		t.Errorf("text %q", r.Text)
	}
	if len(r.Media) != 3 || r.Media[0] != (Media{"image", "image/png", "YQ=="}) || r.Media[1] != (Media{"audio", "audio/wav", "Yg=="}) || r.Media[2] != (Media{"video", "video/mp4", "Yw=="}) {
		t.Errorf("media %+v", r.Media)
	}
}
