package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/task"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm/run"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/policy"
)

// A policySide is what decides, and what it has to know for it.
type policySide struct {
	engine  *policy.Engine
	service *policy.Service
	known   *entities
}

// openPolicies makes what decides who may do what. It follows the tables, so
// it comes before they are loaded.
func (a *App) openPolicies(known *entities, keys *store.Table[security.Key]) error {
	actions, err := commands.NewSet(append(slices.Collect(everyCommand()), a.commands...)...)
	if err != nil {
		return err
	}
	engine, err := policy.New(policy.Options{
		Actions:    actions,
		Entities:   known,
		Notify:     a.policyEvent,
		Log:        a.log,
		Registerer: a.metrics,
	})
	if err != nil {
		return err
	}
	a.policy = policySide{engine: engine, known: known, service: policy.NewService(policy.ServiceOptions{
		Engine:    engine,
		Records:   store.NewTable[policy.Record](a.store, "policy"),
		Principal: principalOf(keys),
		InScope:   security.ScopeAllows,
	})}
	a.authorizer = security.NewAuthorizer(engine)
	known.registry.OnFactsChange(engine.FactsChanged)
	known.caps.OnFactsChange(engine.FactsChanged)
	return nil
}

// everyCommand yields the commands of the bridge, for their actions.
func everyCommand() func(yield func(commands.Command) bool) {
	return func(yield func(commands.Command) bool) {
		for c := range Commands().All() {
			if !yield(*c) {
				return
			}
		}
	}
}

// openRights makes the rights on topics, and has what is lost of them end
// subscriptions.
func (a *App) openRights(mqtt *mqttdoor.Clients) error {
	a.rights = security.NewTopicRights(security.TopicOptions{
		Topics: mqtt.Topics(), Policies: a.policy.engine, Owner: mqtt.Owner, Standing: a.policy.known,
	})
	a.run("reviews of subscriptions", mqtt.Run)
	a.policy.engine.OnChange(mqtt.ReviewAll)
	a.run("policies", a.policy.engine.Run)
	if a.config.Security.Policies == "" {
		return nil
	}
	files, err := policy.OpenFiles(a.policy.engine, a.config.Security.Policies)
	if err != nil {
		return fmt.Errorf("security.policies: %w", err)
	}
	a.run("policy files", files.Run)
	return nil
}

// policyEvent records what happens to policies; the trail tells operators.
func (a *App) policyEvent(e policy.Event) {
	if a.audit == nil || a.audit.Trail == nil {
		return
	}
	entry := audit.Entry{
		Event: e.Name, Code: audit.OK, Security: true, Reason: e.Reason, Resource: "policy/" + e.Policy,
		Details: map[string]string{"from": string(e.From)},
	}
	if e.Name == "policy.broken" {
		entry.Code = string(protocol.InvalidParameter)
	}
	a.audit.Record(context.Background(), entry)
}

// principalOf finds the roles that somebody's newest key gives it.
func principalOf(keys *store.Table[security.Key]) func(protocol.Kind, string, protocol.SpaceID) (*protocol.Principal, bool) {
	return func(kind protocol.Kind, id string, space protocol.SpaceID) (*protocol.Principal, bool) {
		var newest *security.Key
		for _, k := range keys.All() {
			if k.Principal == id && k.Kind == kind && k.Space == space && k.Revoked.IsZero() && (newest == nil || k.Created.After(newest.Created)) {
				newest = k
			}
		}
		if newest == nil {
			return nil, false
		}
		return &protocol.Principal{Kind: kind, ID: id, Space: space, Roles: newest.Roles, Scopes: newest.Scopes, Method: protocol.MethodAPIKey}, true
	}
}

// mayInvoke says why somebody may not invoke a skill.
func (a *App) mayInvoke(ctx context.Context, who *protocol.Principal, space protocol.SpaceID, skill protocol.SkillID) error {
	return a.authorizer.Authorize(ctx, who, "skill:invoke", commands.Resource{Type: "skill", ID: string(skill), Space: space})
}

// entities tell policies what is known of things, and what somebody has to do
// with them.
type entities struct {
	registry *registry.Service
	caps     *cap.Service
	tasks    *task.Service
	runs     *run.Service
	scenes   interface { // nil without scenes
		MayHearScene(*protocol.Principal, protocol.SceneType, protocol.CapID) bool
	}
}

var (
	_ policy.Entities   = (*entities)(nil)
	_ security.Standing = (*entities)(nil)
)

// Facts implements [policy.Entities].
func (e *entities) Facts(space protocol.SpaceID, family, id string) (policy.Facts, bool) {
	switch family {
	case "agent":
		return fromRegistry(e.registry.AgentFacts(space, protocol.AgentID(id)))
	case "skill":
		return fromRegistry(e.registry.SkillFacts(space, protocol.SkillID(id)))
	case "resource":
		return fromRegistry(e.registry.ResourceFacts(space, protocol.ResourceID(id)))
	case "sender": // an agent or a skill
		if f, ok := fromRegistry(e.registry.AgentFacts(space, protocol.AgentID(id))); ok {
			return f, true
		}
		return fromRegistry(e.registry.SkillFacts(space, protocol.SkillID(id)))
	case "cap":
		return e.capFacts(space, id)
	case "group": // cap_id/group_id
		id, group, _ := strings.Cut(id, "/")
		f, ok := e.capFacts(space, id)
		f.Group = group
		return f, ok
	case "scene": // scene_type/cap_id
		scene, id, ok := strings.Cut(id, "/")
		return policy.Facts{Scene: scene, Cap: id}, ok
	}
	return policy.Facts{}, false
}

func (e *entities) capFacts(space protocol.SpaceID, id string) (policy.Facts, bool) {
	owner, skill, ok := e.caps.Facts(space, protocol.CapID(id))
	if !ok {
		return policy.Facts{Cap: id}, false
	}
	return policy.Facts{Owner: owner, Skill: string(skill), Cap: id}, true
}

func fromRegistry(f registry.Facts, ok bool) (policy.Facts, bool) {
	facts := policy.Facts{Owner: f.Owner}
	for _, a := range f.Agents {
		facts.Agents = append(facts.Agents, string(a))
	}
	return facts, ok
}

// OwnsAgent implements [security.Standing].
func (e *entities) OwnsAgent(who *protocol.Principal, id protocol.AgentID) bool {
	f, ok := e.registry.AgentFacts(who.Home(), id)
	return ok && f.Owner.Is(who)
}

// MayUseChannel implements [security.Standing].
func (e *entities) MayUseChannel(who *protocol.Principal, id protocol.CapID, send bool) bool {
	return e.caps.MayUseChannel(who, id, send)
}

// MayHearScene implements [security.Standing].
func (e *entities) MayHearScene(who *protocol.Principal, scene protocol.SceneType, id protocol.CapID) bool {
	return e.scenes != nil && e.scenes.MayHearScene(who, scene, id)
}

// MayFollowTask implements [security.Standing].
func (e *entities) MayFollowTask(who *protocol.Principal, id protocol.TaskID) bool {
	return e.tasks.MayFollow(who, id) || e.runs != nil && e.runs.MayFollow(who, id)
}
