package llm

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// A Loop lets a model use tools: it asks, runs the tools that the model calls,
// tells it the results and asks again, until an answer calls none.
type Loop interface {
	// Run returns the last answer, with the usage, cost and time of all
	// rounds. Emit is nil for who wants no stream; what else happens on the
	// way are events of the call.
	Run(ctx context.Context, call *commands.Call, q LoopQuestion, emit func(chat.Event) error) (*Outcome, error)
}

// A LoopQuestion is a question whose model may use tools.
type LoopQuestion struct {
	Question
	Tools     []string // patterns of names, such as thermostat.*
	MaxRounds int      // 0 is the loop's own limit
}

// A ToolUse is what became of the tools in an answer.
type ToolUse struct {
	Rounds  int          `json:"rounds" doc:"how often the model was asked"`
	Calls   []ToolReport `json:"calls" doc:"the calls it made, in order"`
	Success int          `json:"success" doc:"how many of them succeeded"`
	Failed  int          `json:"failed" doc:"how many failed, refused ones among them"`
	Skipped int          `json:"skipped" doc:"how many were not run"`
	Elapsed float64      `json:"elapsed_ms" doc:"milliseconds of all calls together"`
	Stop    string       `json:"stop,omitempty" enum:"rounds,calls,tokens,time,ask_user,halted,fatal" doc:"the limit that ended it, absent if the model was done: rounds, calls, tokens, time; ask_user: too many failures in a row; halted: too many of the last calls failed; fatal: no call could succeed any more"`
	Detail  string       `json:"detail,omitempty" doc:"more about it"`
	Notices []string     `json:"notices,omitempty" doc:"what the model was told besides results, and tools that were left out"`
}

// A ToolReport is what became of one call.
type ToolReport struct {
	CallID    string          `json:"call_id" doc:"id of the call, unique in the model's answer"`
	Name      string          `json:"name" doc:"of the tool"`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"what it was run with, or what the model wrote if it was not run; as a shortened string beyond 8 KiB"`
	Status    string          `json:"status" enum:"Success,Failed,Skipped" doc:"Success; Failed, also for a refused call and for an error that the tool itself reported; Skipped if the call was not begun or was cancelled"`
	Text      string          `json:"text" doc:"what the model read, shortened"`
	Warning   string          `json:"warning,omitempty" doc:"what was changed in the arguments"`
	Code      protocol.Code   `json:"code,omitempty" doc:"of the error"`
	ElapsedMS float64         `json:"elapsed_ms" doc:"milliseconds it took"`
}

// Add counts a call.
func (u *ToolUse) Add(r ToolReport) {
	u.Calls = append(u.Calls, r)
	u.Elapsed += r.ElapsedMS
	switch r.Status {
	case "Success":
		u.Success++
	case "Failed":
		u.Failed++
	default:
		u.Skipped++
	}
}
