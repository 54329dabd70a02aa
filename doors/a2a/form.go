package a2a

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// notes are the data about a task beyond the fields of tasks.
type notes struct {
	History []Message   `json:"history,omitempty"`
	Push    []receiver  `json:"push,omitempty"`
	Teller  string      `json:"teller,omitempty"` // process that sends notifications to the receivers
	Told    bool        `json:"told,omitempty"`   // the end was sent to all receivers
	Grant   grant.Grant `json:"grant"`            // credential of the requester, for notifications after a restart
}

// A receiver is a configuration of notifications with the credential of its author, on
// which the notifications depend.
type receiver struct {
	PushConfig
	Grant *grant.Grant `json:"grant,omitempty"` // nil of an earlier release
}

func receiverFor(c *caller, config PushConfig) receiver {
	named := grant.Of(c.who())
	return receiver{config, &named}
}

func notesOf(s *task.Standing) (n notes) {
	_ = json.Unmarshal(s.Dialogue.Notes, &n) // empty if they cannot be read any more
	return n
}

// form is a task as clients see it, with all of its messages and artifacts.
func (d *Door) form(ctx context.Context, env tools.Environment, s *task.Standing) *Task {
	t := &Task{
		ID: idOf(s), Context: s.Dialogue.Context, History: notesOf(s).History,
		Status: Status{Timestamp: Timestamp(changed(s))},
	}
	var said []Part
	t.Status.State, said = d.state(ctx, env, s)
	if s.Group != nil {
		t.Artifacts = memberArtifacts(s.Group)
	}
	if s.State == task.Succeeded {
		var failure string
		t.Artifacts, failure = artifactsOf(s)
		if failure != "" {
			t.Status.State, said = Failed, []Part{textPart(failure)}
		}
	}
	if len(said) > 0 {
		t.Status.Message = &Message{
			ID: string(s.ID) + "-" + strings.ToLower(strings.TrimPrefix(string(t.Status.State), "TASK_STATE_")) + turnOf(s), Context: t.Context, Task: t.ID,
			Role: roleAgent, Parts: said,
		}
	}
	return t
}

// turnOf identifies a question of a workflow, so that questions with the same text
// differ.
func turnOf(s *task.Standing) string {
	var run struct {
		Turns int `json:"turns"`
	}
	if s.State != task.Waiting || s.Waits != nil || json.Unmarshal(s.Result, &run) != nil {
		return ""
	}
	return "-" + strconv.Itoa(run.Turns)
}

// changed is the time when the status of a task changed.
func changed(s *task.Standing) time.Time {
	switch {
	case s.Ended != nil:
		return *s.Ended
	case s.Dialogue.Changed.After(s.Started):
		return s.Dialogue.Changed
	}
	return s.Started
}

// state is the state of a task, with its message.
func (d *Door) state(ctx context.Context, env tools.Environment, s *task.Standing) (TaskState, []Part) {
	switch s.State {
	case task.Pending:
		return Submitted, nil
	case task.Running, task.Paused:
		return Working, progressOf(s)
	case task.Waiting:
		if s.Waits != nil {
			return d.awaited(ctx, env, s.Waits)
		}
		var run struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(s.Result, &run) // the result of a waiting run has its questions
		return InputRequired, []Part{textPart(cmp.Or(run.Message, "The workflow waits for you."))}
	case task.Cancelled:
		return Canceled, failureOf(s)
	case task.Succeeded:
		return Completed, nil
	case task.Complete, task.Partial:
		return Completed, countsOf(s)
	}
	if s.Error != nil && refuses(s.Error.Code) {
		return Rejected, failureOf(s)
	}
	return Failed, append(failureOf(s), countsOf(s)...)
}

// refuses reports whether an error means that the work was refused before it began.
func refuses(code protocol.Code) bool {
	return code == protocol.PermissionDenied || code == protocol.OutsideScope || code == protocol.BudgetSpent
}

func failureOf(s *task.Standing) []Part {
	if s.Error == nil {
		return nil
	}
	return []Part{textPart(s.Error.Message + " (code " + string(s.Error.Code) + ")")}
}

// countsOf is the text of the numbers of a group's members by state.
func countsOf(s *task.Standing) []Part {
	if s.Group == nil || len(s.Group.Counts) == 0 {
		return nil
	}
	return []Part{textPart("members by their states: " + strings.Trim(fmt.Sprint(s.Group.Counts), "map[]"))}
}

// progressOf is the text of a running task's progress.
func progressOf(s *task.Standing) []Part {
	if s.Progress == nil {
		return countsOf(s)
	}
	var p struct {
		Percent float64 `json:"percent"`
		Message string  `json:"message"`
	}
	_ = json.Unmarshal(s.Progress.Data, &p) // data of another form has no text
	text := p.Message
	if p.Percent > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%g %% %s", p.Percent, p.Message))
	}
	if text == "" {
		return nil
	}
	return []Part{textPart(text)}
}

// awaited is the state of a task that waits for an approval: the caller is asked itself
// only if policy lets its own credential decide.
func (d *Door) awaited(ctx context.Context, env tools.Environment, w *task.Waits) (TaskState, []Part) {
	said := textPart(fmt.Sprintf("%s waits for the approval %s, until %s at the latest",
		w.Tool, w.Approval, time.UnixMilli(w.Expires).UTC().Format(time.RFC3339)))
	shown, ok := d.decidable(ctx, env, w.Approval)
	if !ok {
		return AuthRequired, []Part{said}
	}
	return InputRequired, []Part{said, dataPart(shown)}
}

// decidable returns an approval for a caller that may decide it itself.
func (d *Door) decidable(ctx context.Context, env tools.Environment, id string) (json.RawMessage, bool) {
	if !d.opts.MayDecideOwn(env.Principal) {
		return nil, false
	}
	text, err := d.ask(ctx, env, "approval.get", map[string]any{"approval_id": id})
	if err != nil {
		return nil, false
	}
	var a struct {
		Nonce     string          `json:"nonce"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
		Why       string          `json:"why"`
	}
	if json.Unmarshal(text, &a) != nil || a.Nonce == "" {
		return nil, false
	}
	shown, err := json.Marshal(map[string]any{
		"approval_id": id, "nonce": a.Nonce, "tool": a.Tool, "arguments": a.Arguments, "why": a.Why, "decision": []string{"approve", "deny"},
	})
	return shown, err == nil
}

// memberArtifacts are the answers of the members of a group, each an artifact.
func memberArtifacts(g *task.Group) []Artifact {
	var list []Artifact
	for i := range g.Members {
		m := &g.Members[i]
		if m.Data == nil && m.Error == nil {
			continue
		}
		answer := map[string]any{"skill_id": m.Skill, "state": m.State}
		if m.Data != nil {
			answer["data"] = m.Data
		}
		if m.Error != nil {
			answer["error"] = map[string]any{"code": m.Error.Code, "message": m.Error.Message}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			continue
		}
		list = append(list, Artifact{ID: "member-" + string(m.Skill), Name: string(m.Skill), Parts: []Part{dataPart(text)}})
	}
	return list
}

// An outcome is the result of a task of this door's.
type outcome struct {
	Artifacts []Artifact `json:"artifacts"`
}

// artifactsOf returns the artifacts of a succeeded task, or the failure in its result:
// a failed tool call, whose text models read, is a success of the task that parked the
// call.
func artifactsOf(s *task.Standing) (list []Artifact, failure string) {
	switch s.Work {
	case "":
		var own outcome
		if json.Unmarshal(s.Result, &own) != nil {
			return nil, "the result cannot be read any more"
		}
		return own.Artifacts, ""
	case "tool.call":
		var end struct {
			Status tools.Status  `json:"status"`
			Text   string        `json:"text"`
			Code   protocol.Code `json:"code"`
		}
		if json.Unmarshal(s.Result, &end) != nil {
			return nil, "the result cannot be read any more"
		}
		if end.Status != tools.Success {
			return nil, end.Text
		}
		return []Artifact{resultArtifact(textOrData(end.Text))}, ""
	case queryCommand:
		return answerArtifacts(s.Result)
	case runCommand:
		var run struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(s.Result, &run) // which has no words then
		parts := []Part{dataPart(s.Result)}
		if run.Message != "" {
			parts = append([]Part{textPart(run.Message)}, parts...)
		}
		return []Artifact{resultArtifact(parts...)}, ""
	}
	return []Artifact{resultArtifact(textOrData(string(s.Result)))}, ""
}

// resultArtifact is the one artifact of a task.
func resultArtifact(parts ...Part) Artifact {
	return Artifact{ID: "result", Name: "result", Parts: parts}
}

// textOrData is a part with a value if the text is JSON, and with the text otherwise.
func textOrData(text string) Part {
	if json.Valid([]byte(text)) {
		return dataPart(json.RawMessage(text))
	}
	return textPart(text)
}

// answerArtifacts are the answer of a language model.
func answerArtifacts(result json.RawMessage) ([]Artifact, string) {
	var answer struct {
		Text   string `json:"result"`
		Reason string `json:"finish_reason"`
		Detail string `json:"finish_detail"`
	}
	if json.Unmarshal(result, &answer) != nil {
		return nil, "the answer cannot be read any more"
	}
	if answer.Text == "" && (answer.Reason == "error" || answer.Reason == "refused") {
		return nil, "the model gave no answer: " + cmp.Or(answer.Detail, answer.Reason)
	}
	return []Artifact{resultArtifact(textPart(answer.Text))}, ""
}

// toolArtifacts are the results of a tool. Clients that read text alone get data as
// text; media are parts of their own.
func toolArtifacts(r *tools.Result, modes []string) []Artifact {
	var parts []Part
	content := bytes.TrimSpace(r.Output.Content)
	if len(r.Output.Brief) > 0 {
		content = r.Output.Brief
	}
	if len(content) > 0 {
		if takes(modes, jsonType) {
			parts = append(parts, dataPart(content))
		} else {
			parts = append(parts, textPart(string(content)))
		}
	} else if r.Text != "" {
		parts = append(parts, textPart(r.Text))
	}
	for i := range r.Output.Segments {
		s := &r.Output.Segments[i]
		if raw, err := base64.StdEncoding.DecodeString(s.Data); err == nil && len(raw) > 0 {
			parts = append(parts, Part{Raw: raw, MediaType: s.MIMEType})
		}
	}
	if len(parts) == 0 {
		parts = []Part{textPart("done")}
	}
	return []Artifact{resultArtifact(parts...)}
}

// takes reports whether a client accepts a media type.
func takes(modes []string, media string) bool {
	if len(modes) == 0 {
		return true
	}
	major, _, _ := strings.Cut(media, "/")
	for _, m := range modes {
		m = strings.ToLower(strings.TrimSpace(m))
		if m == media || m == "*/*" || m == major+"/*" {
			return true
		}
	}
	return false
}

// cut leaves the last n messages of a task; all if n is nil.
func (t *Task) cut(n *int) *Task {
	if n != nil && len(t.History) > *n {
		t.History = t.History[len(t.History)-*n:]
	}
	if len(t.History) == 0 {
		t.History = nil
	}
	return t
}
