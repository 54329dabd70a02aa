package loop

import (
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// A ToolUse is the use of tools in an answer.
type ToolUse struct {
	Rounds  int          `json:"rounds" doc:"number of questions to the model"`
	Calls   []ToolReport `json:"calls" doc:"the calls it made, in order"`
	Success int          `json:"success" doc:"number of them that succeeded"`
	Failed  int          `json:"failed" doc:"number that failed, refused ones among them"`
	Skipped int          `json:"skipped" doc:"number of those that were not run"`
	Elapsed float64      `json:"elapsed_ms" doc:"milliseconds of all calls together"`
	Stop    string       `json:"stop,omitempty" enum:"rounds,calls,tokens,time,ask_user,halted,fatal" doc:"the limit that ended it, absent if the model was done: rounds, calls, tokens, time; ask_user: too many failures in a row; halted: too many of the last calls failed; fatal: no call could succeed any more"`
	Detail  string       `json:"detail,omitempty" doc:"more about it"`
	Notices []string     `json:"notices,omitempty" doc:"texts of the bridge to the model besides results, and notes of tools that were left out"`
}

// A ToolReport is the outcome of one call.
type ToolReport struct {
	CallID    string          `json:"call_id" doc:"id of the call, unique in the model's answer"`
	Name      string          `json:"name" doc:"of the tool"`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"params that it was run with, or those that the model wrote if it was not run; as a shortened string beyond 8 KiB"`
	Status    string          `json:"status" enum:"Success,Failed,Skipped" doc:"Success; Failed, also for a refused call and for an error that the tool itself reported; Skipped if the call was not begun or was cancelled"`
	Text      string          `json:"text" doc:"text that the model read, shortened"`
	Warning   string          `json:"warning,omitempty" doc:"change of the arguments"`
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
