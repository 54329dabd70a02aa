package app

import (
	"context"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/cap/rollout"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/feed"
	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/connect/homeassistant"
	"github.com/aibridge/aibridge/internal/authz"
	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/conversation"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/run"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/registry/doctor"
	"github.com/aibridge/aibridge/registry/shadow"
	"github.com/aibridge/aibridge/scene"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/policy"
	"github.com/aibridge/aibridge/vfs/mirror/caps"
)

// The domains of a bridge, and what makes their principals known.
type domains struct {
	namespaces *store.Table[commands.Namespace] // of commands that agents register
	agents     *registry.Service
	shadows    *shadow.Service
	skills     *store.Table[registry.SkillRecord]
	groups     *dispatch.Engine
	rollouts   *rollout.Engine
	channels   *cap.Service
	scenes     *scene.Service
	tasks      *task.Service
	files      *fileParts
	mirror     *caps.Service
	models     *modelParts
	approvals  *approval.Service
	parked     *parked.Service
	tools      *toolParts
	calls      *loop.Calls // of models that the bridge does not ask itself, which wait for an approval
	llm        *llm.Service
	chats      *conversation.Service
	runs       *run.Service
	policies   *policy.Service
	identities *identities
	rights     *security.TopicRights
	feed       *feed.Feed // of events, for those who do not speak MQTT
	backups    *backup.Service
	announcers *store.Table[homeassistant.Announcer]
	doctor     *doctor.Service // of devices
	relay      *relaying       // nil for a bridge that works alone
}

// openDomains makes the domains with their tables, loads these, and then opens
// what reads them.
func openDomains(ctx context.Context, s *state) (d *domains, err error) {
	skills := store.NewTable[registry.SkillRecord](s.Store, "skill")
	credentials := newCredentialTables(s.Store)
	ring, err := security.OpenKeyring(s.config.Data, credentials.keys)
	if err != nil {
		return nil, err
	}
	d = &domains{
		skills:     skills,
		namespaces: store.NewTable[commands.Namespace](s.Store, "namespace"), models: newModels(s, ring),
		announcers: store.NewTable[homeassistant.Announcer](s.Store, "announcer"),
	}
	if d.relay, err = newRelaying(s, ring); err != nil {
		return nil, err
	}
	if d.agents, err = newRegistry(s, skills, ring, d.models, d.relay); err != nil {
		return nil, err
	}
	d.shadows = newShadows(s, d.agents)
	d.groups = newDispatches(s, d.agents)
	if d.approvals, err = newApprovals(s); err != nil {
		return nil, err
	}
	d.rollouts = newRollouts(s, d.agents, d.groups, d.approvals)
	channels, tables := newCaps(s, d.agents, d.groups, d.rollouts)
	d.channels = channels
	d.scenes = newScenes(s, d.agents, d.channels, d.relay)
	skills.OnChange(func(_ string, old, _ *registry.SkillRecord) {
		if old != nil { // a new one was nobody's before
			d.channels.SkillChanged(old.Space, old.ID)
			d.scenes.SkillChanged(old.Space, old.ID)
			for _, p := range old.Providers {
				d.shadows.Stirred(old.Space, p.AgentID)
			}
		}
	})
	d.parked = newParked(s, d.approvals, d.rollouts, d.tellLate(s))
	d.tasks = newTasks(s, d.groups, d.rollouts, d.parked, d.relay)
	if d.files, err = newFiles(ctx, s, d.channels); err != nil {
		return nil, err
	}
	d.mirror = newMirror(s, d.channels, tables, d.files)
	if d.tools, err = newTools(s, skills, d.groups, d.models, d.approvals); err != nil {
		return nil, err
	}
	d.approvals.OnEdit(reviser(d.parked, d.tools))
	talker := newLoop(s, d.models, d.tools)
	d.calls = loop.NewCalls(talker, d.parked, s.leaving)
	d.llm = llm.New(llm.Options{Models: d.models.service, Loop: talker, Parked: d.parked, MayActFor: s.judge.MayAskFor})
	d.chats = newChats(s, d.models, d.tools, talker, d.parked)
	d.runs = newRuns(s, d.models, d.tools, d.approvals, d.files)
	d.tasks.Runs = runsAsTasks(d)
	parties := authz.Parties{Agents: d.agents, Keys: security.IndexKeys(credentials.keys), Certificates: s.promised.certificates.value}
	d.policies = policy.NewService(policy.ServiceOptions{
		Engine: s.policies, Records: store.NewTable[policy.Record](s.Store, "policy"), Trials: store.NewTable[policy.Record](s.Store, "policy-trial"), Principal: parties.Principal, InScope: security.ScopeAllows,
	})

	if err := s.Store.Load(ctx); err != nil {
		return nil, err
	}
	if err := s.seals.Start(ctx, s.config.Shared(), s.log); err != nil {
		return nil, err
	}
	if d.identities, err = openIdentities(ctx, s, credentials, ring, parties, d.files); err != nil {
		return nil, err
	}
	d.rights, err = openRights(s, authz.Standing{Agents: d.agents, Caps: d.channels, Scenes: d.scenes, Tasks: d.tasks, Runs: d.runs})
	if err != nil {
		return nil, err
	}
	d.feed = newFeed(s, d.rights)
	d.doctor = newDoctor(s, d, parties)
	if err := s.config.Tokens.CheckRoles(s.policies.KnowsRole, s.log); err != nil {
		return nil, err
	}
	d.backups, err = newBackups(s, d.files)
	return d, err
}

// newFeed gathers what happens for those who do not speak MQTT.
func newFeed(s *state, rights *security.TopicRights) *feed.Feed {
	f := feed.New(feed.Options{
		Topics:  s.topics,
		MayHear: func(who *protocol.Principal, topic string) bool { return rights.MaySubscribe(who, topic).Reason == 0 },
		Check:   s.credentials.Check,
	})
	s.clients.OnPublish(f.Published)
	s.life.Run("feed of events", f.Run)
	return f
}

// families are the domains with commands.
func (d *domains) families() []family {
	return []family{
		d.feed, d.agents, d.shadows, d.doctor, d.channels, d.scenes, d.tasks, d.identities.keys, d.identities.tokens, d.policies, d.identities.pki,
		d.files, d.mirror, d.tools.servers, d.llm, d.chats, d.approvals, d.runs,
	}
}
