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

// A requestEntry is the difference of a request from the one before.
type requestEntry struct {
	System []chat.Message `json:"system,omitempty"` // nil: as before
	Anew   bool           `json:"anew,omitempty"`   // Added is all of it
	Added  []chat.Message `json:"added,omitempty"`
}

// A turnEntry is a request to the model and its answer. It is written before anything is
// done about it.
type turnEntry struct {
	N         int               `json:"n"`
	At        time.Time         `json:"at"`
	Node      string            `json:"node,omitempty"`
	Before    Phase             `json:"before"`
	Request   requestEntry      `json:"request"`
	Tools     []chat.Tool       `json:"tools,omitempty"`
	SameTools bool              `json:"same_tools,omitempty"` // as the turn before
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

// An enterEntry says that a run is in another node than before.
type enterEntry struct {
	Node string `json:"node"`
}

// A wordEntry says what made a run go on. It is on disk before anybody is
// told that it does.
type wordEntry struct {
	Intent Intent  `json:"intent"`
	Node   string  `json:"node,omitempty"`  // the run was in
	Input  *string `json:"input,omitempty"` // of the user
}

// A restEntry says that a run came to rest: nothing before it is open.
type restEntry struct {
	At        time.Time  `json:"at"`
	Phase     Phase      `json:"phase"`
	Code      fault.Code `json:"code,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Message   string     `json:"message,omitempty"`
	Questions []Question `json:"questions,omitempty"`
}

// clean reports whether the run stopped of itself, so that its conversation
// can be gone on with. After another stop it begins anew.
func (r *restEntry) clean() bool { return r.Phase == WaitingUser || r.Phase == Completed }

func (r *restEntry) stop() Stop {
	return Stop{Phase: r.Phase, Code: r.Code, Reason: r.Reason, Message: r.Message, Questions: r.Questions}
}
