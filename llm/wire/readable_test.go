package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
)

// Media in the result of a tool that a provider does not take become words: they would end
// every further turn of the conversation.
func TestMediaThatAProviderDoesNotTakeBecomeWords(t *testing.T) {
	t.Parallel()
	m := chat.Message{Role: chat.ToolRole, Segments: []chat.Segment{
		{Type: chat.Text, Text: "done"}, {Type: chat.Image, MIMEType: "image/png", Data: "aGk="},
		{Type: chat.Image, MIMEType: "image/svg+xml", Data: "aGk="}, {Type: chat.Video, MIMEType: "video/mp4", Data: "aGk="},
	}}
	before := slices.Clone(m.Segments)
	got := Readable(m, TakesImage)
	var kinds []string
	for _, s := range got.Segments {
		kinds = append(kinds, string(s.Type))
	}
	if want := "text image text text"; strings.Join(kinds, " ") != want || !strings.Contains(got.Segments[2].Text, "svg") {
		t.Errorf("%v: %+v", kinds, got.Segments)
	}
	for i := range before {
		if m.Segments[i].Type != before[i].Type {
			t.Error("the message itself was changed")
		}
	}
	m.Role = chat.User // whose media are refused by name
	if got := Readable(m, TakesImage); got.Segments[3].Type != chat.Video {
		t.Error("the media of a user became words")
	}
}
