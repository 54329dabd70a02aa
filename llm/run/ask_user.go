package run

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/tools"
)

const (
	// maxQuestion is the greatest length of a question to the user, in bytes.
	maxQuestion = 16 << 10
	maxOptions  = 20
)

// askUser is the tool by which a model asks the user. It does not wait: the run comes
// to rest, and continues with the answer as USER_INPUT.
func (k *toolkit) askUser() *tools.Tool {
	var mu sync.Mutex
	return &tools.Tool{
		Declaration: tools.Declaration{
			Name:        "ui.ask_user",
			Title:       "Ask the user",
			Description: "Ask the user a question and stop. The answer comes as USER_INPUT, not as the result of this call.",
			Parameters: []tools.Parameter{
				{Name: "question", Description: "what to ask", Kind: tools.String, Required: true},
				{Name: "options", Description: "answers to choose from, if there are such", Kind: tools.String, Cardinality: tools.List},
			},
			Effect: commands.Write,
			Pinned: true,
			Source: sourceUI,
		},
		Run: func(_ context.Context, x *tools.Execution) (tools.Output, error) {
			q := Question{CallID: x.CallID}
			q.Text, _ = x.Arguments["question"].(string)
			list, _ := x.Arguments["options"].([]any)
			for _, item := range list {
				if text, ok := item.(string); ok {
					q.Options = append(q.Options, text)
				}
			}
			switch {
			case strings.TrimSpace(q.Text) == "":
				return ownFailure(fault.Errorf(fault.SchemaValidation, "there is no question"))
			case len(q.Text) > maxQuestion || len(q.Options) > maxOptions:
				return ownFailure(fault.Errorf(fault.WriteLimit, "the question is too long; %d bytes and %d options are the limit", maxQuestion, maxOptions))
			}
			mu.Lock()
			k.questions[x.CallID] = q
			mu.Unlock()
			return tools.Output{Content: json.RawMessage(`{"ok":true,"status":"waiting_user"}`)}, nil
		},
	}
}

// ownFailure is the output of a failed call of the run's own tools.
func ownFailure(f *fault.Error) (tools.Output, error) {
	return tools.Output{Content: (&toolResult{Error: f}).JSON(), IsError: true}, nil
}
