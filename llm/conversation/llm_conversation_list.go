package conversation

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

var conversationList = commands.Spec{
	Name:    "llm.conversation.list",
	Summary: "List the caller's conversations, the one spoken in last first.",
	Effect:  commands.Read,
	Action:  "llm:read",
	Example: `{"find":"bedroom"}`,
}

// ListParams are the params of llm.conversation.list.
type ListParams struct {
	Find string `json:"find,omitempty" len:"1-128" doc:"only conversations with this text in their id, model, skill or the user's messages, regardless of case"`
	Sort string `json:"sort,omitempty" enum:"id,-id,active_at,-active_at,began_at,-began_at,turns,-turns,tokens,-tokens,cost,-cost" doc:"field to sort by, the highest first behind a minus; the one spoken in last first if absent"`
	listing.Page
}

// A View is a conversation in the answers to its owner.
type View struct {
	ID      string           `json:"session_id" doc:"the conversation"`
	Title   string           `json:"title,omitempty" doc:"first words of the user among those that are kept, shortened"`
	Model   string           `json:"model,omitempty" doc:"the model that answers; absent for the default one"`
	System  string           `json:"system,omitempty" doc:"text that the model is told before everything else"`
	Skill   protocol.SkillID `json:"skill_id,omitempty" doc:"the skill on whose behalf is asked"`
	Tools   []string         `json:"tools" doc:"patterns of tools that the model may use"`
	Turns   int              `json:"turns" doc:"number of answers of the model, forgotten ones too"`
	Tokens  int              `json:"tokens" doc:"tokens of all questions and answers"`
	Cost    float64          `json:"cost" doc:"of all answers, in the currency of the configured prices"`
	Began   int64            `json:"began_at" doc:"time at which it began, Unix milliseconds"`
	Active  int64            `json:"active_at" doc:"time at which it was spoken in last, Unix milliseconds"`
	EndsAt  int64            `json:"ends_at" doc:"time at which it is deleted without a further message, Unix milliseconds"`
	Locked  string           `json:"locked,omitempty" doc:"reason why the tools are locked until /reset; absent if they are not"`
	Waiting bool             `json:"answering,omitempty" doc:"a message is being answered"`
}

// ListResult is one page of conversations.
type ListResult struct {
	Conversations []View `json:"conversations" doc:"the conversations, without their messages"`
	Total         int    `json:"total" doc:"number on all pages"`
	NextCursor    string `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// listOrder holds the columns that lists of conversations can be sorted by.
var listOrder = listing.Order[*Conversation]{
	ID: func(c *Conversation) string { return c.ID },
	Keys: map[string]func(*Conversation) listing.Key{
		"active_at": func(c *Conversation) listing.Key { return listing.Number(c.Active) },
		"began_at":  func(c *Conversation) listing.Key { return listing.Number(c.Began) },
		"turns":     func(c *Conversation) listing.Key { return listing.Number(int64(c.Count)) },
		"tokens":    func(c *Conversation) listing.Key { return listing.Number(int64(c.Tokens)) },
		"cost":      func(c *Conversation) listing.Key { return listing.Number(int64(c.Cost * 1e9)) },
	},
	Default: "-active_at",
}

// List returns the caller's conversations. No other principal sees them, not even
// administrators.
func (s *Service) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	named := listing.Find(p.Find)
	own := func(yield func(*Conversation) bool) {
		for key, c := range s.opts.Conversations.All() {
			if strings.HasPrefix(key, prefixOf(call.Principal)) && !s.quiet(c) && c.mentions(named) && !yield(c) {
				return
			}
		}
	}
	found, err := listOrder.Select(own, p.Sort, p.Page)
	if err != nil {
		return ListResult{}, err
	}
	result := ListResult{Conversations: make([]View, len(found.Items)), Total: found.Total, NextCursor: found.Next}
	for i, c := range found.Items {
		result.Conversations[i] = s.view(call.Principal, c)
		result.Conversations[i].System = ""
	}
	return result, nil
}

// mentions reports whether a conversation contains the text of a finder.
func (c *Conversation) mentions(named listing.Finder) bool {
	if named.In(c.ID, c.Model, string(c.Skill)) {
		return true
	}
	for i := range c.Turns {
		if named.In(c.Turns[i].said()) {
			return true
		}
	}
	return false
}

// said is the text of the user in a turn.
func (t *Turn) said() string {
	for _, m := range t.Messages {
		if m.Role == chat.User {
			return (&chat.Answer{Segments: m.Segments}).Text()
		}
	}
	return ""
}

// maxTitle is the length of a title, in characters.
const maxTitle = 80

func (s *Service) view(who *protocol.Principal, c *Conversation) View {
	v := View{
		ID: c.ID, Model: c.Model, System: c.System, Skill: c.Skill, Tools: c.Tools, Turns: c.Count, Tokens: c.Tokens, Cost: c.Cost,
		Began: c.Began, Active: c.Active, EndsAt: c.Active + s.opts.TTL.Milliseconds(), Locked: c.Health.Locked, Waiting: s.answering(keyOf(who, c.ID)),
	}
	if v.Tools == nil {
		v.Tools = []string{}
	}
	if len(c.Turns) > 0 {
		v.Title = strings.Join(strings.Fields(c.Turns[0].said()), " ")
		if runes := []rune(v.Title); len(runes) > maxTitle {
			v.Title = string(runes[:maxTitle-1]) + cut
		}
	}
	return v
}

func (s *Service) answering(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[key]
}
