package run

import (
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
)

// A conversation that breaks off again and again in the middle of a turn is
// continued without any of the answers that have unfinished calls.
func TestAnAnswerWithoutResultsIsInNoConversation(t *testing.T) {
	var s story
	say := func(role chat.Role, text string) chat.Message {
		return chat.Message{Role: role, Segments: []chat.Segment{{Type: chat.Text, Text: text}}}
	}
	asks := func(n int, added ...chat.Message) *entry {
		m := say(chat.Assistant, "call")
		return &entry{Turn: &turnEntry{N: n, Request: requestEntry{Anew: n == 1, Added: added}, Assistant: &m}}
	}
	resumed := &entry{Word: &wordEntry{Intent: IntentResume}}
	for _, e := range []*entry{
		{Word: &wordEntry{Intent: IntentStart}}, asks(1, say(chat.User, "hello")),
		resumed, resumed, asks(2), resumed,
		asks(3), {Tools: &toolsEntry{N: 3, Messages: []chat.Message{say(chat.ToolRole, "result")}}},
		asks(4), resumed,
	} {
		s.read(e)
	}
	var roles []chat.Role
	for _, m := range s.conversation() {
		roles = append(roles, m.Role)
	}
	if len(roles) != 3 || roles[0] != chat.User || roles[1] != chat.Assistant || roles[2] != chat.ToolRole {
		t.Errorf("it goes on with what %q have said", roles)
	}
}
