package wiretest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

// Talk runs a conversation of several turns with a provider that answers one reply
// after the other: every call gets a result that names its tool, and after an answer
// without calls follows a message of the user. The requests and the answers are
// compared with the golden file talk.txt.
func Talk(t *testing.T, provider func(*wire.Client) chat.Provider, r *chat.Request, replies ...Reply) {
	t.Helper()
	s := New(t, replies...)
	p := provider(s.Client())
	var story strings.Builder
	for i := range replies {
		var rec Recorder
		err := p.Stream(t.Context(), r, rec.Emit)
		fmt.Fprintf(&story, "=== request %d\n%s=== answer %d\n%s", i+1, Indent(s.Requests()[i].Body), i+1, Tell(rec.Events, err))
		if err != nil {
			t.Fatalf("%s\n%v", story.String(), err)
		}
		var f chat.Folder
		for _, e := range rec.Events {
			if err := f.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		a, err := f.Answer()
		if err != nil {
			t.Fatal(err)
		}
		r.Messages = append(r.Messages, a.Message())
		for _, call := range a.Calls() {
			result := fmt.Sprintf(`{"done":%q}`, call.Name)
			r.Messages = append(r.Messages, chat.Message{Role: chat.ToolRole, ToolCallID: call.ID, ToolName: call.Name, Segments: []chat.Segment{{Type: chat.Text, Text: result}}})
		}
		if len(a.Calls()) == 0 {
			r.Messages = append(r.Messages, chat.TextMessage(chat.User, "And now?"))
		}
	}
	// Ids made by the adapter differ from run to run; equal ids get equal names.
	text, names := story.String(), map[string]string{}
	text = made.ReplaceAllStringFunc(text, func(id string) string {
		if names[id] == "" {
			names[id] = fmt.Sprintf("<made %d>", len(names)+1)
		}
		return names[id]
	})
	Golden(t, "talk.txt", text)
}
