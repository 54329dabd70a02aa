package a2a

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/llm/tools/bridge"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Commands and tools that messages lead to.
const (
	dispatchTool = "group.dispatch"
	runCommand   = "llm.run.start"
	queryCommand = "llm.query"
)

// A plan is the request of a message.
type plan struct {
	box   *tools.Toolbox // nil for a run or a query
	call  *chat.ToolCall
	run   json.RawMessage // params of the workflow to start
	query string          // for the language model
	tools []string        // that it may use
	write func(string)    // receives the text of the answer as it comes; optional
}

// An order is the contents of a message's data.
type order struct {
	Skill      string          `json:"skill_id"`
	Capability string          `json:"capability_id"`
	Cap        string          `json:"cap_id"`
	Group      string          `json:"group_id"`
	Run        json.RawMessage `json:"run"`
	Tool       string          `json:"tool"`
	Params     json.RawMessage `json:"params"`
	Arguments  json.RawMessage `json:"arguments"`
}

// howTo is the description of valid messages, for errors.
const howTo = `send one data part: {"skill_id":…,"capability_id":…,"params":{…}} for a capability, {"cap_id":…,"group_id":…,"capability_id":…,"params":{…}} for a group, ` +
	`{"run":{"package":…,"input":…}} with the params of llm.run.start for a workflow, or {"tool":…,"arguments":{…}}; a text alone goes to the language model, if there is one`

// understand returns the plan of a message.
func (d *Door) understand(ctx context.Context, c *caller, m *Message) (*plan, error) {
	var data json.RawMessage
	var texts []string
	for i := range m.Parts {
		p := &m.Parts[i]
		switch {
		case p.Text != nil:
			if p.MediaType != "" && !strings.HasPrefix(p.MediaType, "text/") {
				return nil, wrongType(p.MediaType)
			}
			texts = append(texts, *p.Text)
		case p.Data != nil && data != nil:
			return nil, invalid("message.parts", "may have one part with data: it says what to do")
		case p.Data != nil:
			if p.MediaType != "" && p.MediaType != jsonType {
				return nil, wrongType(p.MediaType)
			}
			data = p.Data
		default:
			return nil, wrongType(cmp.Or(p.MediaType, "application/octet-stream"))
		}
	}
	if data != nil {
		return d.ordered(ctx, c, data)
	}
	question := strings.TrimSpace(strings.Join(texts, "\n"))
	if question != "" && c.agent != "" && d.opts.Elsewhere != nil && d.opts.Elsewhere(c.who().Home(), protocol.SkillID(c.agent)) {
		order, err := json.Marshal(map[string]any{"capability_id": "message", "params": map[string]string{"text": question}})
		if err != nil {
			return nil, err
		}
		return d.ordered(ctx, c, order)
	}
	if !d.opts.HasModel(c.who().Home()) {
		return nil, refusal(contentTypeNotSupported, "there is no language model here that could read a text: "+howTo, "mediaType", "text/plain")
	}
	if question == "" {
		return nil, invalid("message.parts", "have no text")
	}
	p := &plan{query: question, tools: []string{"*"}}
	if c.agent != "" {
		p.tools = []string{c.agent + ".*"}
	}
	return p, nil
}

func wrongType(media string) error {
	return refusal(contentTypeNotSupported, "parts of the media type "+media+" cannot be read here: "+howTo, "mediaType", media)
}

func invalid(field, what string) error {
	return &Error{kind: invalidParams, Message: "Invalid parameters: " + field + " " + what, violations: []violation{{field, what}}}
}

// ordered finds the tool that the data of a message asks for.
func (d *Door) ordered(ctx context.Context, c *caller, data json.RawMessage) (*plan, error) {
	const field = "message.parts.data"
	var o order
	if err := json.Unmarshal(data, &o); err != nil || bytes.TrimSpace(data)[0] != '{' {
		return nil, invalid(field, "does not say what to do: "+howTo)
	}
	name, arguments := o.Tool, o.Arguments
	switch {
	case o.Tool != "":
	case o.Group != "" || o.Cap != "":
		name, arguments = dispatchTool, data
	case o.Capability != "":
		name, arguments = cmp.Or(o.Skill, c.agent)+"."+o.Capability, o.Params
	case len(o.Run) > 0 && o.Run[0] == '{' && c.agent == "":
		return &plan{run: o.Run}, nil
	}
	if name == "" || strings.HasPrefix(name, ".") || strings.Contains(name, "*") {
		return nil, invalid(field, "does not say what to do: "+howTo)
	}
	if c.agent != "" && !d.offers(ctx, c, name) {
		return nil, invalid(field, "asks for "+name+", which the agent "+c.agent+" has not")
	}
	box, err := d.opts.Catalogue.Select(ctx, c.env, []string{name})
	if protocol.CodeOf(err) == protocol.NotFound {
		return nil, invalid(field, "asks for "+name+", which there is not, or not for you")
	}
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = json.RawMessage("{}")
	}
	return &plan{box: box, call: &chat.ToolCall{ID: protocol.NewID(), Name: name, Args: arguments}}, nil
}

// offers reports whether a tool belongs to the addressed agent.
func (d *Door) offers(ctx context.Context, c *caller, name string) bool {
	set, err := d.opts.Skills.Skill(ctx, c.env, protocol.SkillID(c.agent))
	if err != nil {
		return false
	}
	capability, _ := strings.CutPrefix(name, c.agent+".")
	return slices.ContainsFunc(set.Capabilities, func(one bridge.Capability) bool { return string(one.ID) == capability })
}

// carryOut executes a plan, and returns the outcome, or an error that names the task
// that continues the work.
func (d *Door) carryOut(ctx context.Context, env tools.Environment, p *plan, modes []string, tell func(tools.Progress)) (json.RawMessage, error) {
	good, release := grant.While(ctx, d.opts.Grants, grant.Of(env.Principal))
	defer release()
	switch {
	case p.run != nil:
		return nil, d.startRun(good, env, p)
	case p.box == nil:
		return d.askModel(good, env, p)
	}
	r, begun := d.execute(tools.WithProgress(good, tell), env, p)
	switch {
	case begun != "":
		return nil, &task.HandOver{To: begun}
	case r.Question != nil:
		id, err := d.opts.Keeper.Park(good, env, p.call, r.Question)
		if err != nil {
			return nil, err
		}
		return nil, &task.HandOver{To: id}
	case r.Status != tools.Success:
		if r.Err != nil {
			return nil, r.Err
		}
		return nil, protocol.Errorf(protocol.Cancelled, "%s", cmp.Or(r.Text, "the call was not made"))
	case r.Output.IsError:
		return nil, protocol.Errorf(protocol.Internal, "%s", cmp.Or(r.Text, "the tool says that it failed"))
	}
	return json.Marshal(outcome{toolArtifacts(&r, modes)})
}

// execute runs the call of a plan until it has a result, or a task does its work.
func (d *Door) execute(ctx context.Context, env tools.Environment, p *plan) (r tools.Result, begun protocol.TaskID) {
	env.Parks = true
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	told := make(chan protocol.TaskID, 1)
	ctx = tools.WithTask(ctx, func(id protocol.TaskID) {
		select {
		case told <- id:
		default:
		}
	})
	done := make(chan tools.Result, 1)
	go func() { done <- d.opts.Executor.Execute(ctx, p.box, env, []*chat.ToolCall{p.call})[0] }()
	select {
	case r = <-done:
		return r, ""
	case begun = <-told:
		end(tools.ErrHandedOver)
		<-done
		return tools.Result{}, begun
	}
}

// startRun starts a workflow, and returns the error that names its task.
func (d *Door) startRun(ctx context.Context, env tools.Environment, p *plan) error {
	answer, err := d.ask(ctx, env, runCommand, p.run)
	if err != nil {
		return err
	}
	var begun struct {
		Run protocol.TaskID `json:"run_id"`
	}
	if err := json.Unmarshal(answer, &begun); err != nil || begun.Run == "" {
		return protocol.Errorf(protocol.Internal, "the run has no id")
	}
	return &task.HandOver{To: begun.Run}
}

// askModel has the language model answer.
func (d *Door) askModel(ctx context.Context, env tools.Environment, p *plan) (json.RawMessage, error) {
	answer, err := d.follow(ctx, env, queryCommand, map[string]any{
		"query": p.query, "tools": p.tools, "approval_wait_ms": 0, "stream": p.write != nil,
	}, written(p.write))
	if err != nil {
		return nil, err
	}
	var waits struct {
		Waiting *struct {
			Task protocol.TaskID `json:"task_id"`
		} `json:"waiting"`
	}
	if json.Unmarshal(answer, &waits) == nil && waits.Waiting != nil && waits.Waiting.Task != "" {
		return nil, &task.HandOver{To: waits.Waiting.Task}
	}
	artifacts, failure := answerArtifacts(answer)
	if failure != "" {
		return nil, protocol.Errorf(protocol.LLMRefused, "%s", failure)
	}
	return json.Marshal(outcome{artifacts})
}

// written returns the receiver of events that passes on the text of a language model as
// it comes.
func written(to func(string)) func(*protocol.Event) {
	if to == nil {
		return nil
	}
	return func(e *protocol.Event) {
		var delta struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if e.Name == "llm.delta" && json.Unmarshal(e.Data, &delta) == nil && delta.Type == "text_delta" {
			to(delta.Text)
		}
	}
}
