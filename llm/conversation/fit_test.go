package conversation

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
)

// TestATurnTooLongByItselfIsCutWhateverItIsWrittenIn has texts whose
// characters take several bytes, in more messages than fit.
func TestATurnTooLongByItselfIsCutWhateverItIsWrittenIn(t *testing.T) {
	for _, letter := range []string{"a", "ü", "水", "🌊"} {
		for _, bytes := range []int{64, 1000, 1 << 18} {
			s := Conversation{Turns: []Turn{{Messages: []chat.Message{chat.TextMessage(chat.User, "before")}}, {}}}
			for i := range 8 {
				role := chat.User
				if i > 0 {
					role = chat.Assistant
				}
				s.Turns[1].Messages = append(s.Turns[1].Messages, chat.TextMessage(role, strings.Repeat(letter, bytes)))
			}
			s.fit(40, bytes)
			if len(s.Turns) != 1 || s.Turns[0].Messages[0].Role != chat.User {
				t.Fatalf("%s: %d turns are left", letter, len(s.Turns))
			}
			texts := 0
			for _, m := range s.Turns[0].Messages {
				texts += len(m.Segments[0].Text)
			}
			if texts > bytes/2 {
				t.Errorf("%s: of %d bytes %d are left", letter, bytes, texts)
			}
		}
	}
}
