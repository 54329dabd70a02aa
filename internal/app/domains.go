package app

import (
	"context"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/cap/rollout"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/feed"
	"github.com/aibridge/aibridge/commands/task"
	remotea2a "github.com/aibridge/aibridge/connect/a2a"
	"github.com/aibridge/aibridge/connect/homeassistant"
	"github.com/aibridge/aibridge/connect/link"
	"github.com/aibridge/aibridge/connect/site"
	a2atopic "github.com/aibridge/aibridge/doors/a2a/topic"
	"github.com/aibridge/aibridge/doors/files/webdav"
	"github.com/aibridge/aibridge/doors/mqtt/cloudevents"
	"github.com/aibridge/aibridge/doors/mqtt/delayed"
	"github.com/aibridge/aibridge/doors/mqtt/queue"
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
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/policy"
	"github.com/aibridge/aibridge/vfs/mirror/caps"
)

// The domains of a bridge, and the identities of their principals.
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
	feed       *feed.Feed // of events, for clients that do not speak MQTT
	backups    *backup.Service
	audits     *audit.Service
	secrets    *security.SecretService
	quotas     *security.QuotaService
	announcers *store.Table[homeassistant.Announcer]
	links      *link.Service
	doctor     *doctor.Service             // of devices
	remote     *remotea2a.Service          // agents elsewhere
	relay      *relaying                   // nil for a bridge that works alone
	a2aCards   *store.Table[a2atopic.Card] // of agents on MQTT
	delayed    *store.Table[delayed.Message]
	queued     *store.Table[queue.Message]
	queues     *queue.Keeper
	davLocks   *store.Table[webdav.Lock]
	plain      *plain // publications of programs that know nothing of the bridge
}

// openDomains makes the domains with their tables, loads these, and then opens the
// parts that read them.
func openDomains(ctx context.Context, s *state) (d *domains, err error) {
	skills := store.NewTable[registry.SkillRecord](s.Store, "skill")
	credentials := newCredentialTables(s.Store)
	ring, err := security.OpenKeyring(s.config.Data, credentials.keys)
	if err != nil {
		return nil, err
	}
	ring.Rotate(credentials.peppers, s.seals)
	d = &domains{
		skills:     skills,
		namespaces: store.NewTable[commands.Namespace](s.Store, "namespace"), models: newModels(s, ring),
		announcers: store.NewTable[homeassistant.Announcer](s.Store, "announcer"),
	}
	if d.relay, err = newRelaying(s, ring); err != nil {
		return nil, err
	}
	d.models.relay = d.relay
	d.plain = newPlain(s, d.relay)
	if d.agents, err = newRegistry(s, skills, ring, d.models, d.relay); err != nil {
		return nil, err
	}
	d.remote = newRemoteAgents(s)
	d.a2aCards = store.NewTable[a2atopic.Card](s.Store, "a2acard")
	d.delayed = store.NewTable[delayed.Message](s.Store, "delayed")
	d.queued = store.NewTable[queue.Message](s.Store, "queued")
	d.davLocks = store.NewTable[webdav.Lock](s.Store, "davlock")
	d.shadows = newShadows(s, d.agents)
	d.links = newLinks(s, d, ring)
	joinCentre(s, d)
	borrowFor(s, d.relay)
	d.groups = newDispatches(s, d.agents)
	if d.approvals, err = newApprovals(s); err != nil {
		return nil, err
	}
	d.rollouts = newRollouts(s, d.agents, d.groups, d.approvals)
	channels, tables := newCaps(s, d.agents, d.groups, d.rollouts)
	d.channels = channels
	showCaps(s, channels, tables)
	d.scenes = newScenes(s, d.agents, d.channels, d.relay)
	skills.OnChange(func(_ string, old, _ *registry.SkillRecord) {
		if old != nil { // a new one had no owner before
			d.channels.SkillChanged(old.Space, old.ID)
			d.scenes.SkillChanged(old.Space, old.ID)
			for _, p := range old.Providers {
				d.shadows.Stirred(old.Space, p.AgentID)
			}
		}
	})
	d.parked = newParked(s, d.approvals, d.keepApproval, d.tellLate(s))
	d.tasks = newTasks(s, d.groups, d.rollouts, d.parked, d.relay)
	if d.files, err = newFiles(ctx, s, d.channels, d.relay.catchUp()); err != nil {
		return nil, err
	}
	d.mirror = newMirror(s, d.channels, tables, d.files, d.relay)
	if d.tools, err = newTools(s, skills, d.groups, d.models, d.approvals); err != nil {
		return nil, err
	}
	d.approvals.OnEdit(reviser(d, d.tools))
	talker := newLoop(s, d.models, d.tools)
	d.calls = loop.NewCalls(talker, d.parked, s.leaving)
	d.llm = llm.New(llm.Options{
		Models: d.models.service, Loop: talker, Parked: d.parked, MayActFor: s.judge.MayAskFor, Elsewhere: d.models.elsewhere(d.relay),
		MayName: site.Names(s.config.Sites.Have).CheckSite,
	})
	d.chats = newChats(s, d.models, d.tools, talker, d.parked)
	if d.runs, err = newRuns(ctx, s, d); err != nil {
		return nil, err
	}
	d.tasks.Runs, d.tasks.Run = runsAsTasks(d), d.runs.MayFollow
	parties := authz.Parties{Agents: d.agents, Keys: security.IndexKeys(credentials.keys), Certificates: s.promised.certificates.value}
	d.policies = newPolicies(s, parties, d.relay)

	if err := s.Store.Load(ctx); err != nil {
		return nil, err
	}
	if err := s.seals.Start(ctx, s.config.Shared(), s.log); err != nil {
		return nil, err
	}
	if d.identities, err = openIdentities(ctx, s, credentials, ring, parties, d.relay); err != nil {
		return nil, err
	}
	if d.secrets, err = newSecrets(s, d, ring); err != nil {
		return nil, err
	}
	d.audits = newAudits(s, d.relay)
	d.quotas = newQuotaReadings(s, parties.Keys, d.relay)
	d.rights, err = openRights(s, authz.Standing{Agents: d.agents, Caps: d.channels, Scenes: d.scenes, Tasks: d.tasks, Runs: d.runs, Files: d.files.Service})
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

// newFeed makes the feed of events for clients that do not speak MQTT.
func newFeed(s *state, rights *security.TopicRights) *feed.Feed {
	f := feed.New(feed.Options{
		Topics:  s.topics,
		MayHear: func(who *protocol.Principal, topic string) bool { return rights.MaySubscribe(who, topic).Reason == 0 },
		Check:   s.credentials.Check,
	})
	s.clients.OnPublish(f.Published)
	if s.config.MQTT.CloudEvents {
		teller := &cloudevents.Teller{Topics: s.topics, Publish: s.clients.Publish, Log: s.log}
		s.clients.OnPublish(teller.Published)
	}
	s.life.Run("feed of events", f.Run)
	return f
}

// families are the domains with commands.
func (d *domains) families() []family {
	return []family{
		d.feed, d.agents, d.shadows, d.doctor, d.channels, d.scenes, d.tasks, d.identities.keys, d.secrets, d.audits, d.quotas, d.identities.tokens, d.policies, d.identities.pki,
		d.files, d.mirror, d.links, d.tools.servers, d.remote, d.llm, d.chats, d.approvals, d.runs,
	}
}
