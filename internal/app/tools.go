package app

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/llm/tools/bridge"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
)

// Tools says what models may call, besides the skills that whoever asks them
// may invoke.
type Tools struct {
	Commands []string `yaml:"commands" doc:"commands of the bridge that models may run for those who may; none of cert, key, policy, audit or approval"`
}

// defaultTools are commands that only read, and that a model needs to find its
// way.
func defaultTools() Tools {
	return Tools{Commands: []string{
		"agent.list", "cap.query", "group.data.get", "group.query", "resource.get", "resource.list", "scene.query", "skill.discover", "task.get",
	}}
}

// check says what is wrong with the settings.
func (t *Tools) check(fail func(format string, args ...any)) {
	if err := bridge.CheckAllowed(Commands(), t.Commands); err != nil {
		fail("tools.commands: %w", err)
	}
}

// toolSide holds the tool catalogue, its executor and its retriever.
type toolSide struct {
	catalogue *tools.Catalogue
	executor  *tools.Executor
	retriever *tools.HybridRetriever
}

// newTools makes the catalogue of what models may call. Others' tools stand
// behind the bridge's own and before those of skills, which anybody who may
// register a skill can name.
func (a *App) newTools(skills *store.Table[registry.SkillRecord], groups *dispatch.Engine, others ...tools.Source) error {
	known := bridge.NewSkills(a.invokeForTool, a.mayInvoke)
	skills.OnChange(func(_ string, old, now *registry.SkillRecord) { noteSkill(known, old, now) })
	allowed, err := bridge.NewCommands(Commands(), a.config.Tools.Commands, a.invokeForTool, a.mayRun)
	if err != nil {
		return err
	}
	sources := []tools.Source{
		bridge.NewDocuments(known), bridge.NewGroups(known, a.invokeForTool, groups.Wait, a.mayRun), allowed,
	}
	a.tools.catalogue = tools.New(append(append(sources, others...), known)...)
	a.newRetriever()
	a.tools.executor = &tools.Executor{Gate: a.approvals.Gate, Log: a.log, Record: a.recordToolCall}
	return nil
}

// Tools are what models may call.
func (a *App) Tools() *tools.Catalogue { return a.tools.catalogue }

// ToolExecutor runs what models call.
func (a *App) ToolExecutor() *tools.Executor { return a.tools.executor }

// noteSkill tells the source of tools that a skill has changed.
func noteSkill(known *bridge.Skills, old, now *registry.SkillRecord) {
	if now == nil {
		known.Changed(homeOf(old), old.ID, old.RegisteredAt, nil)
		return
	}
	known.Changed(homeOf(now), now.ID, now.RegisteredAt, func() bridge.Skill { return describeSkill(now) })
}

func homeOf(r *registry.SkillRecord) protocol.SpaceID { return cmp.Or(r.Space, protocol.DefaultSpace) }

func describeSkill(r *registry.SkillRecord) bridge.Skill {
	s := bridge.Skill{
		Space: homeOf(r), ID: r.ID, Name: r.Name, Description: r.Description, RegisteredAt: r.RegisteredAt,
		Capabilities: make([]bridge.Capability, len(r.Capabilities)),
	}
	for i := range r.Capabilities {
		c := &r.Capabilities[i]
		s.Capabilities[i] = bridge.Capability{
			ID: c.ID, Name: c.Name, Description: c.Description,
			ParamsSchema: json.RawMessage(c.ParamsSchema.String()), ResultSchema: json.RawMessage(c.ResultSchema.String()),
			ReadOnly: c.Effect == registry.Reads, Idempotent: c.Idempotent, Risk: c.Risk, Sealed: c.Sealed == registry.SealedRequired,
		}
	}
	return s
}

// mayRun says why somebody may not run commands of an action.
func (a *App) mayRun(ctx context.Context, who *protocol.Principal, action string) error {
	return a.authorizer.Authorize(ctx, who, action, commands.Resource{Space: who.Home()})
}

// toolDoor is the door by which the calls of models come in.
const toolDoor = "tool"

// invokeForTool runs a command as the principal of an environment: with all
// that happens to anybody's, and within what is left of the call of the tool.
func (a *App) invokeForTool(ctx context.Context, env tools.Environment, command string, params json.RawMessage) (json.RawMessage, error) {
	timeout := tools.DefaultTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	request := protocol.Request{
		Version: protocol.Version, ID: a.toolRequestID(ctx, command), Timestamp: time.Now().UnixMilli(), Command: command, Params: params,
		Metadata: protocol.Metadata{
			Timeout: min(max(timeout, time.Millisecond), protocol.MaxTimeout), TraceID: env.TraceID, Events: tools.Listens(ctx),
		},
	}
	answer := a.router.HandleWithin(ctx, commands.Inbound{
		Principal: env.Principal, Request: &request, Door: toolDoor, Traceparent: env.Traceparent, Depth: env.Depth,
		Emit: func(e *protocol.Event) { tellProgress(ctx, e) }, Confirm: tools.CheckOf(ctx),
	})
	if answer.Err != nil {
		return answer.Result, answer.Err
	}
	return answer.Result, nil
}

// toolRequestID is the id of a request for a tool. What acts on the world has
// that of the call, if it has one, so that it is never done twice for it.
func (a *App) toolRequestID(ctx context.Context, command string) string {
	if key := tools.KeyOf(ctx); key != "" {
		if c, ok := a.router.Set().Find(command); ok && c.Effect == commands.Act {
			return key
		}
	}
	return protocol.NewID()
}

// tellProgress passes on how far a device or a server says it is, and what it
// logs.
func tellProgress(ctx context.Context, e *protocol.Event) {
	switch e.Name {
	case "task.progress":
		var p struct {
			Percent float64 `json:"percent"`
			Message string  `json:"message"`
		}
		if json.Unmarshal(e.Data, &p) == nil {
			tools.TellProgress(ctx, tools.Progress{Percent: p.Percent, Message: p.Message})
		}
	case "task.log":
		var l struct {
			Level  string `json:"level"`
			Logger string `json:"logger"`
			Text   string `json:"text"`
		}
		if json.Unmarshal(e.Data, &l) == nil {
			tools.TellLog(ctx, tools.Log{Level: l.Level, Logger: l.Logger, Text: l.Text})
		}
	}
}
