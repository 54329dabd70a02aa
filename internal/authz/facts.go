// Package authz passes the facts of the domains on to the packages that decide:
// facts for policies, the standing of principals for the rights to topics, the
// holders of credentials, and whether work that was started may go on.
package authz

import (
	"strings"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/run"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/scene"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/policy"
	"github.com/aibridge/aibridge/vfs"
)

// Facts provides policies with facts about resources. The domains are made after
// the policies, and are there before the first decision.
type Facts struct {
	Agents func() *registry.Service
	Caps   func() *cap.Service

	Approvals func() *approval.Service
}

var _ policy.Entities = Facts{}

// Facts implements [policy.Entities].
func (f Facts) Facts(space protocol.SpaceID, family, id string) (policy.Facts, bool) {
	switch family {
	case "agent":
		return fromRegistry(f.Agents().AgentFacts(space, protocol.AgentID(id)))
	case "skill":
		return fromRegistry(f.Agents().SkillFacts(space, protocol.SkillID(id)))
	case "resource":
		return fromRegistry(f.Agents().ResourceFacts(space, protocol.ResourceID(id)))
	case "sender": // an agent or a skill
		if facts, ok := fromRegistry(f.Agents().AgentFacts(space, protocol.AgentID(id))); ok {
			return facts, true
		}
		return fromRegistry(f.Agents().SkillFacts(space, protocol.SkillID(id)))
	case "cap":
		return f.cap(space, id)
	case "group": // cap_id/group_id
		id, group, _ := strings.Cut(id, "/")
		facts, ok := f.cap(space, id)
		facts.Group = group
		return facts, ok
	case "approval":
		a, ok := f.Approvals().Facts(space, id)
		return policy.Facts{Tool: a.Tool, Arguments: a.Args, Requester: a.Requester, RequesterKind: string(a.Kind), Risk: a.Risk, Skill: string(a.Skill)}, ok
	case "state": // agent_id/skill_id
		agent, skill, ok := strings.Cut(id, "/")
		registered, _ := f.Agents().AgentFacts(space, protocol.AgentID(agent))
		return policy.Facts{Owner: registered.Owner, Agents: []string{agent}, Skill: skill}, ok
	case "scene": // scene_type/cap_id
		scene, id, ok := strings.Cut(id, "/")
		return policy.Facts{Scene: scene, Cap: id}, ok
	}
	return policy.Facts{}, false
}

func (f Facts) cap(space protocol.SpaceID, id string) (policy.Facts, bool) {
	owner, skill, ok := f.Caps().Facts(space, protocol.CapID(id))
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

// Standing knows the ties of principals to things, for the rights to topics.
type Standing struct {
	Agents *registry.Service
	Caps   *cap.Service
	Scenes *scene.Service
	Tasks  *task.Service
	Runs   *run.Service
	Files  *vfs.Service
}

var _ security.Standing = Standing{}

// OwnsAgent implements [security.Standing].
func (s Standing) OwnsAgent(who *protocol.Principal, id protocol.AgentID) bool {
	f, ok := s.Agents.AgentFacts(who.Home(), id)
	return ok && f.Owner.Is(who)
}

// MayUseChannel implements [security.Standing].
func (s Standing) MayUseChannel(who *protocol.Principal, id protocol.CapID, send bool) bool {
	return s.Caps.MayUseChannel(who, id, send)
}

// MayHearScene implements [security.Standing].
func (s Standing) MayHearScene(who *protocol.Principal, scene protocol.SceneType, id protocol.CapID) bool {
	return s.Scenes.MayHearScene(who, scene, id)
}

// MayFollowTask implements [security.Standing].
func (s Standing) MayFollowTask(who *protocol.Principal, id protocol.TaskID) bool {
	return s.Tasks.MayFollow(who, id) || s.Runs.MayFollow(who, id)
}

// MayFollowFiles implements [security.Standing].
func (s Standing) MayFollowFiles(who *protocol.Principal, group string) bool {
	return s.Files.MayFollow(who, group)
}
