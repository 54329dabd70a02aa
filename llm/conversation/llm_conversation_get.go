package conversation

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

var conversationGet = commands.Spec{
	Name:    "llm.conversation.get",
	Summary: "Show one of the caller's conversations, with what was said as far as the model is shown it.",
	Effect:  commands.Read,
	Action:  "llm:read",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"session_id":"evening"}`,
}

// GetParams name a conversation.
type GetParams struct {
	Session string `json:"session_id" len:"1-64" pattern:"^[A-Za-z0-9._-]+$" doc:"the conversation"`
}

// Target is the conversation.
func (p GetParams) Target() commands.Resource {
	return commands.Resource{Type: "llm", ID: "conversation"}
}

// GetResult is a conversation with its messages.
type GetResult struct {
	View
	Messages []chat.Message `json:"messages" doc:"words of user and model, calls of tools and their results, in order; the oldest may be forgotten"`
}

// Get returns a conversation of the caller. A conversation of another principal is not
// found.
func (s *Service) Get(_ context.Context, call *commands.Call, p GetParams) (GetResult, error) {
	c, _, ok := s.opts.Conversations.Get(keyOf(call.Principal, p.Session))
	if !ok || s.quiet(c) {
		return GetResult{}, protocol.Errorf(protocol.NotFound, "no conversation %.64q", p.Session).With("session_id", p.Session)
	}
	result := GetResult{View: s.view(call.Principal, c), Messages: []chat.Message{}}
	for _, t := range c.Turns {
		result.Messages = append(result.Messages, t.Messages...)
	}
	return result, nil
}
