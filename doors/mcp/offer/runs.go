package offer

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A shownRun is a run as llm.run.status shows it.
type shownRun struct {
	Phase     string `json:"phase"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	Turns     int    `json:"turns"`
	Started   int64  `json:"started_at"`
	Waiting   *waits `json:"waiting"`
	Changed   int64  `json:"changed_at"`
	Questions []struct {
		Call    string   `json:"call_id"`
		Text    string   `json:"question"`
		Options []string `json:"options"`
	} `json:"questions"`
}

// run is a run as a task.
func (m tasks) run(ctx context.Context, env tools.Environment, id protocol.TaskID) (*mcpdoor.Task, error) {
	var text json.RawMessage
	if err := m.ask(ctx, env, "llm.run.status", map[string]any{"run_id": id}, &text); err != nil {
		switch protocol.CodeOf(err) {
		case protocol.NotFound, protocol.PermissionDenied: // a principal without the right to runs must not learn of one
			err = noTask(id)
		}
		return nil, err
	}
	var r shownRun
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, protocol.Wrap(protocol.Internal, err, "the run cannot be read")
	}
	t := &mcpdoor.Task{ID: id, Begun: time.UnixMilli(r.Started), Changed: time.UnixMilli(r.Changed), Message: r.Message}
	switch r.Phase {
	case "WaitingUser":
		t.State, t.Question = mcpdoor.TaskWaiting, r.question()
	case "WaitingApproval":
		t.State, t.Approval = mcpdoor.TaskWaiting, m.approval(ctx, env, t, r.Waiting)
	case "Completed":
		t.State, t.Result = mcpdoor.TaskDone, resultOf(tools.Success, string(text), nil)
	case "Failed":
		t.State, t.Message = mcpdoor.TaskDone, r.Reason
		t.Result = resultOf(tools.Failed, string(text), nil)
	}
	return t, nil
}

// question is the question of a run to its user. Without a question of its own, a run
// waits for an answer to its last message.
func (r *shownRun) question() *mcpdoor.Question {
	q := &mcpdoor.Question{Key: "turn-" + strconv.Itoa(r.Turns) + "-" + strconv.FormatInt(r.Changed, 36), Text: r.Message}
	var texts []string
	for _, one := range r.Questions {
		text := one.Text
		if len(one.Options) > 0 {
			text += " (" + strings.Join(one.Options, ", ") + ")"
		}
		texts = append(texts, text)
	}
	if len(texts) > 0 {
		q.Text = strings.Join(texts, "\n")
	}
	if q.Text == "" {
		q.Text = "The workflow waits for you."
	}
	return q
}

// Reply implements [mcpdoor.Tasks].
func (m tasks) Reply(ctx context.Context, env tools.Environment, id protocol.TaskID, text string) error {
	var gone json.RawMessage
	return m.ask(ctx, env, "llm.run.continue", map[string]any{"run_id": id, "input": text}, &gone)
}
