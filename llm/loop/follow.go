package loop

import "github.com/aibridge/aibridge/llm/tools"

// A follower emits the progress and logs of running calls as events of the answer.
type follower func(event string, data any)

// A stepEvent is the data of llm.tool_progress.
type stepEvent struct {
	CallID  string  `json:"call_id"`
	Percent float64 `json:"percent"`
	Message string  `json:"message,omitempty"`
}

// A logEvent is the data of llm.tool_log.
type logEvent struct {
	CallID string `json:"call_id"`
	Level  string `json:"level"`
	Logger string `json:"logger,omitempty"`
	Text   string `json:"text"`
}

// Progress implements [tools.Follower].
func (f follower) Progress(call string, p tools.Progress) {
	f("llm.tool_progress", stepEvent{call, p.Percent, p.Message})
}

// Log implements [tools.Follower].
func (f follower) Log(call string, l tools.Log) {
	f("llm.tool_log", logEvent{call, l.Level, l.Logger, l.Text})
}
