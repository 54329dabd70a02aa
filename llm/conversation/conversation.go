package conversation

import (
	"encoding/json"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/protocol"
)

// A Conversation is the record of one conversation.
type Conversation struct {
	ID     string           `json:"session_id"`
	Space  protocol.SpaceID `json:"space_id"`
	Owner  string           `json:"owner"` // id of the principal
	Kind   protocol.Kind    `json:"kind"`
	Skill  protocol.SkillID `json:"skill_id,omitempty"`
	Model  string           `json:"model,omitempty"`
	System string           `json:"system,omitempty"`
	Tools  []string         `json:"tools,omitempty"` // patterns of the tools that the model may use
	Turns  []Turn           `json:"turns,omitempty"`
	Health loop.Health      `json:"health,omitzero"`

	Resets int `json:"resets,omitempty"` // number of resets: an answer to a message before a reset is not added after it

	Began  int64 `json:"began_at"` // Unix milliseconds, as the next
	Active int64 `json:"active_at"`
	Count  int   `json:"count"`  // of turns, deleted ones included
	Tokens int   `json:"tokens"` // of all turns

	Cost float64 `json:"cost,omitempty"` // the same
}

// KeptFor is the party whose quota of records the conversation counts against.
func (s *Conversation) KeptFor() protocol.Party {
	return protocol.Party{Kind: s.Kind, Space: s.Space, ID: s.Owner}
}

// A Turn is a user's message and all messages that answer it.
type Turn struct {
	Messages []chat.Message  `json:"messages"`
	Task     protocol.TaskID `json:"task_id,omitempty"` // of a turn that was parked
}

// keyOf is the key of a principal's conversation.
func keyOf(who *protocol.Principal, id string) string {
	return prefixOf(who) + id
}

func prefixOf(who *protocol.Principal) string {
	return who.Party().String() + "/"
}

// fit deletes the excess of a conversation: its oldest turns, and the media and calls
// of a last turn that is too long by itself.
func (s *Conversation) fit(turns, bytes int) {
	if more := len(s.Turns) - turns; more > 0 {
		s.Turns = s.Turns[more:]
	}
	sizes := make([]int, len(s.Turns))
	total := 0
	for i := range s.Turns {
		sizes[i] = s.Turns[i].size()
		total += sizes[i]
	}
	first := 0
	for ; total > bytes && first < len(s.Turns)-1; first++ {
		total -= sizes[first]
	}
	s.Turns = append([]Turn(nil), s.Turns[first:]...)
	if total > bytes {
		s.Turns[len(s.Turns)-1].shorten(bytes)
	}
}

func (t *Turn) size() int {
	raw, err := json.Marshal(t)
	if err != nil { // it came from JSON
		return 0
	}
	return len(raw)
}

// cut marks the end of a text that was cut off.
const cut = "…"

// shorten reduces a turn to the texts of user and model, as far as they fit.
func (t *Turn) shorten(bytes int) {
	var short []chat.Message
	left := bytes / 2 // JSON may need more than the text
	for _, m := range t.Messages {
		if m.Role == chat.ToolRole {
			continue
		}
		answer := chat.Answer{Segments: m.Segments}
		text := answer.Text()
		if len(text) > left/2 { // leave room for the messages that follow
			most := left/2 - len(cut)
			if most <= 0 {
				break
			}
			text = strings.ToValidUTF8(text[:most], "") + cut
		}
		if text == "" {
			continue
		}
		left -= len(text)
		short = append(short, chat.TextMessage(m.Role, text))
	}
	t.Messages = short
}

// messages returns the messages for the model, with the user's new message last.
func (s *Conversation) messages(now chat.Message) []chat.Message {
	var list []chat.Message
	if s.System != "" {
		list = append(list, chat.TextMessage(chat.System, s.System))
	}
	for _, t := range s.Turns {
		list = append(list, t.Messages...)
	}
	return append(list, now)
}
