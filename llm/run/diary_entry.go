package run

import (
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/run/fault"
)

// An entry is one line of a run's diary: exactly one of its fields.
type entry struct {
	Turn   *turnEntry   `json:"turn,omitempty"`
	Tools  *toolsEntry  `json:"tools,omitempty"`
	Effect *effectEntry `json:"effect,omitempty"`
	Enter  *enterEntry  `json:"enter,omitempty"`
	Wait   *waitEntry   `json:"wait,omitempty"`
	Word   *wordEntry   `json:"word,omitempty"`
	Rest   *restEntry   `json:"rest,omitempty"`
}

// A requestEntry is the difference of a request from the previous one.
type requestEntry struct {
	System []chat.Message `json:"system,omitempty"` // nil if unchanged
	Anew   bool           `json:"anew,omitempty"`   // Added holds all messages
	Added  []chat.Message `json:"added,omitempty"`
}

// A turnEntry is a request to the model and its answer. It is written before the answer
// has any effect.
type turnEntry struct {
	N         int               `json:"n"`
	At        time.Time         `json:"at"`
	Node      string            `json:"node,omitempty"`
	Before    Phase             `json:"before"`
	Request   requestEntry      `json:"request"`
	Tools     []chat.Tool       `json:"tools,omitempty"`
	SameTools bool              `json:"same_tools,omitempty"` // as in the previous turn
	Assistant *chat.Message     `json:"assistant,omitempty"`  // nil: no answer
	Failure   fault.Code        `json:"failure,omitempty"`
	Model     string            `json:"model,omitempty"`
	Finish    chat.FinishReason `json:"finish,omitempty"`
	Provider  string            `json:"provider,omitempty"`
	Usage     chat.Usage        `json:"usage,omitzero"`
	Cost      float64           `json:"cost,omitempty"`
	Took      time.Duration     `json:"took,omitempty"`
}

// A toolsEntry is the outcome of a turn.
type toolsEntry struct {
	N        int            `json:"n"`
	Runs     []ToolRun      `json:"runs,omitempty"`
	Messages []chat.Message `json:"messages,omitempty"`
	After    Phase          `json:"after"`
	Stop     fault.Code     `json:"stop,omitempty"`
}

// An enterEntry records the entry of a run into another node.
type enterEntry struct {
	Node string `json:"node"`
}

// A wordEntry is the input that continues a run. It is durable before the run is
// reported as running.
type wordEntry struct {
	Intent Intent  `json:"intent"`
	Node   string  `json:"node,omitempty"`  // node of the run at the time
	Input  *string `json:"input,omitempty"` // of the user
}

// A restEntry records that a run came to rest: no entry before it is open.
type restEntry struct {
	At        time.Time  `json:"at"`
	Phase     Phase      `json:"phase"`
	Code      fault.Code `json:"code,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Message   string     `json:"message,omitempty"`
	Questions []Question `json:"questions,omitempty"`
}

// clean reports whether the run stopped by itself, so that its conversation can be
// continued. After another stop it begins anew.
func (r *restEntry) clean() bool { return r.Phase == WaitingUser || r.Phase == Completed }

func (r *restEntry) stop() Stop {
	return Stop{Phase: r.Phase, Code: r.Code, Reason: r.Reason, Message: r.Message, Questions: r.Questions}
}
