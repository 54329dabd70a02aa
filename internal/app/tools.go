package app

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/llm/tools/bridge"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/security/audit/events"
)

// The toolParts are the catalogue of the tools that models may call, and their executor.
type toolParts struct {
	catalogue *tools.Catalogue
	executor  *tools.Executor
	retriever *tools.HybridRetriever
	servers   *servers.Service
	skills    *bridge.Skills
	offered   *tools.Catalogue // to MCP clients: the catalogue, and the tools for people alone
	instance  string           // identifies this bridge among MCP servers
	record    events.Tools
}

// newTools makes the catalogue of the tools that models may call. The tools of MCP
// servers come after the bridge's own and before those of skills, whose names every
// principal that may register a skill can choose.
func newTools(s *state, skills *store.Table[registry.SkillRecord], groups *dispatch.Engine, models *modelParts, approvals *approval.Service) (*toolParts, error) {
	invoker := bridge.Invoker{Router: s.promised.router.value}
	invoke := invoker.Invoke
	known := bridge.NewSkills(invoker.Fill, s.judge.MayInvoke, func(space protocol.SpaceID, skill protocol.SkillID, capability protocol.CapabilityID, params json.RawMessage) string {
		return s.promised.agents.value().EffectOf(space, skill, capability, params)
	})
	skills.OnChange(func(_ string, old, now *registry.SkillRecord) { noteSkill(known, old, now) })
	allowed, err := bridge.NewCommands(Commands(), s.config.Tools.Commands, invoke, s.judge.MayRunCommands)
	if err != nil {
		return nil, err
	}
	t := &toolParts{
		skills:   known,
		instance: protocol.NewID(),
		record:   events.Tools{Trail: s.audit, Arguments: s.config.Audit.Arguments, Sealer: s.seals, Log: s.log},
	}
	t.servers = servers.New(servers.Options{
		Servers:  s.config.MCP.Servers,
		Devices:  s.config.MCP.Devices,
		Table:    store.NewTable[servers.Approved](s.Store, "mcpserver"),
		Invoke:   invoke,
		May:      s.judge.MayUseServer,
		Version:  s.version,
		Instance: t.instance,
		Tracer:   s.tracer,
		Log:      s.log,
	})
	documents, teams := bridge.NewDocuments(known), bridge.NewGroups(known, invoke, groups.Wait, s.judge.MayRunCommands)
	t.catalogue = tools.New(documents, teams, allowed, t.servers, known).Under(s.judge)
	t.offered = t.catalogue
	if s.config.Approvals.MCP {
		people, err := bridge.NewPeople(Commands(), invoke, s.judge.MayRunCommands)
		if err != nil {
			return nil, err
		}
		t.offered = tools.New(documents, teams, allowed, people, t.servers, known).Under(s.judge)
	}
	t.retriever = tools.NewHybridRetriever(tools.HybridOptions{
		Embedder:   embedder{models.service},
		Patience:   time.Duration(s.config.ToolLoop.Patience) * time.Millisecond,
		Registerer: s.metrics,
	})
	t.executor = &tools.Executor{Gate: approvals.Gate, MaxDepth: s.config.ToolLoop.Limits().Depth, Tracer: s.tracer, Log: s.log, Record: t.record.Called}
	return t, nil
}

// noteSkill notifies the source of tools of a changed skill.
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
			ReadOnly: c.Effect == registry.Reads, Idempotent: c.Idempotent, Risk: c.Risk, EffectKey: c.EffectKey, Sealed: c.Sealed == registry.SealedRequired,
		}
	}
	return s
}
