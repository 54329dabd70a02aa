package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/task"
	httpdoor "github.com/aibridge/aibridge/doors/http"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/doors/mqtt/session"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/run"
	chats "github.com/aibridge/aibridge/llm/session"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/registry/schema"
	"github.com/aibridge/aibridge/scene"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/pki"
	"github.com/aibridge/aibridge/security/policy"
	"github.com/aibridge/aibridge/security/seal"
	"github.com/aibridge/aibridge/security/servertls"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror/caps"
)

// roomAroundPayload is what an MQTT packet may have beyond the envelope: the
// topic and the properties.
const roomAroundPayload = 64 << 10

// build puts the parts together. Each is noted in the lifecycle as soon as it
// runs, so that the order here is the order of starting, and backwards that
// of stopping.
func (a *App) build(ctx context.Context) error {
	tracer, flush, err := newTracer(ctx, a.config, a.version)
	if err != nil {
		return err
	}
	a.life.add("traces", flush)
	a.openGate()
	if err := a.listen(ctx); err != nil {
		return err
	}
	a.openLobby()
	a.watchDisk()
	if err := a.openQuotas(); err != nil {
		return err
	}
	if err := a.openState(ctx); err != nil {
		return err
	}
	if err := a.openAudit(ctx); err != nil {
		return err
	}

	topics := protocol.NewTopics(a.config.Root)
	a.credentials = security.NewCredentials(a.clock)
	mqtt := mqttdoor.NewClients(topics, a.log)
	a.mqtt = mqtt
	a.newMCPAgent()
	keys := store.NewTable[security.Key](a.store, "key")
	uses := store.NewTable[security.KeyUse](a.store, "keyuse").Essential()
	revocations := store.NewTable[security.Revocation](a.store, "revocation").Essential()
	namespaces := store.NewTable[commands.Namespace](a.store, "namespace")
	skills := store.NewTable[registry.SkillRecord](a.store, "skill")
	agents, err := registry.New(registry.Options{
		Agents:       store.NewTable[registry.Agent](a.store, "agent"),
		Skills:       skills,
		Resources:    store.NewTable[registry.ResourceRecord](a.store, "resource"),
		Joins:        store.NewTable[registry.JoinRecord](a.store, "skill-join"),
		Names:        store.NewTable[registry.NameRecord](a.store, "skill-name"),
		Publisher:    mqtt,
		Topics:       topics,
		BridgeID:     a.config.ID,
		Limits:       a.limits(),
		AllowPrivate: a.config.Skills.AllowPrivate,
		Certified:    a.credentials.Stands,
		CertifiedFor: a.certifiedFor,
		CapOwners: func(space protocol.SpaceID, skill protocol.SkillID) []protocol.Party {
			return a.channels.OwnersKnowing(space, skill)
		},
		MAC:          func(id, secret string) []byte { return a.keyring.MAC("join", id, secret) },
		Routes:       sceneCertificates{a},
		AgentChanged: a.agentChanged,
		Models:       a.mcpAgent.models,
		Inside:       a.mcpAgent.is,
		Disconnect:   mqtt.Disconnect,
		Log:          a.log,
		Tracer:       tracer,
		Registerer:   a.metrics,
	})
	if err != nil {
		return err
	}
	groups := a.newDispatcher(agents, mqtt)
	channels := a.newCaps(agents, skills, groups, mqtt)
	a.scenes = a.newScenes(agents, channels, mqtt)
	if a.seals, err = seal.Open(a.config.Data, store.NewTable[seal.DataKey](a.store, "datakey")); err != nil {
		return err
	}
	tasks := task.New(task.Options{
		Tasks:      task.Sealed(store.NewTable[task.Task](a.store, "task"), a.seals),
		Groups:     groupTasks{groups},
		Publish:    mqtt.PublishTask,
		BridgeID:   a.config.ID,
		Log:        a.log,
		Registerer: a.metrics,
	})
	if err := a.newFiles(ctx, channels); err != nil {
		return err
	}
	a.newMirror(channels)
	a.newModels(tracer)
	if err := a.newApprovals(mqtt); err != nil {
		return err
	}
	if err := a.newTools(skills, groups, a.newMCPServers()); err != nil {
		return err
	}
	a.newLoop()
	a.newChats()
	a.newRuns(mqtt)
	certificates := newPKITables(a.store)
	known := &entities{registry: agents, caps: channels, tasks: tasks, scenes: a.scenes, runs: a.runs}
	if err := a.openPolicies(known, keys); err != nil {
		return err
	}
	if err := a.store.Load(ctx); err != nil {
		return err
	}
	if err := a.seals.Start(ctx, a.config.NATS.URL != "", a.log); err != nil {
		return err
	}
	a.parties = &parties{registry: agents, keys: keys}
	if err := a.openPKI(ctx, certificates, mqtt); err != nil {
		return err
	}
	if err := a.openIdentity(ctx, keys, uses, revocations); err != nil {
		return err
	}
	if err := a.openRights(mqtt); err != nil {
		return err
	}
	if err := a.config.Tokens.CheckRoles(a.policy.engine.KnowsRole, a.log); err != nil {
		return err
	}

	set, err := commands.NewSet(append(gather(agents, channels, a.scenes, tasks, session.New(mqtt), a.keys, a.revocations, a.policy.service, a.pki, a.files, a.mirror, a.mcp.servers, a.llm, a.chats, a.approvals, a.runs, a.audit), a.commands...)...)
	if err != nil {
		return err
	}
	if err := a.openBroker(ctx, agents); err != nil {
		return err
	}
	a.run("registry", agents.Run)
	a.run("caps", channels.Run)
	a.run("files", a.files.store.Run)
	a.openFileTopics()
	a.runMirror(channels)
	if err := a.openLLM(); err != nil {
		return err
	}
	if err := a.runApprovals(ctx); err != nil {
		return err
	}
	a.run("vectors of tools", a.tools.retriever.Run)
	a.run("conversations", a.chats.Run)
	if err := tasks.Recover(ctx); err != nil {
		return err
	}
	a.life.add("tasks", tasks.Close)
	groups.Recover()
	a.life.add("groups", groups.Close)
	a.router = commands.NewRouter(set, commands.RouterOptions{
		Clock:       a.clock,
		Authorizer:  a.authorizer,
		Credentials: a.credentials,
		Claims:      a.claims,
		Tasks:       tasks,
		Extensions:  a.extensions,
		Forwarder:   agents,
		Namespaces:  namespaces,
		Schemas:     compileSchema,
		Reserved:    policy.Reserved(set),
		Auditor:     a.auditor(),
		Limiter:     a.limiter(),
		BridgeID:    a.config.ID,
		Doors:       a.addresses.doors(),
		Workers:     a.config.Limits.Workers,
		MaxInFlight: a.config.Limits.InFlight,
		Limits:      a.limits(),
		Log:         a.log,
		Tracer:      tracer,
		Registerer:  a.metrics,
	})
	a.life.add("answers over HTTP", a.finishHTTP)
	a.life.add("connections of agents", func(ctx context.Context) error {
		if a.api == nil {
			return nil
		}
		return a.api.CloseAgents(ctx)
	})
	a.life.drain("commands", a.router.Close)
	a.life.add("waiting approvals", a.approvals.Close)
	mqttdoor.New(mqttdoor.Options{
		Router:     a.router,
		Publisher:  a.broker,
		Topics:     topics,
		BridgeID:   a.config.ID,
		Limits:     a.limits(),
		MayRespond: a.rights.MayRespond,
		Gone:       mqtt.Gone,
		Southbound: a.southbound(),
		Held:       true,
		Log:        a.log,
	}).Open(a.broker)
	if err := a.newBackups(); err != nil {
		return err
	}
	if err := a.openAPI(set, agents); err != nil {
		return err
	}
	a.followCredentials(keys, revocations)
	a.runPKI(agents)
	a.runMCPAgent(agents)
	a.runScenes()
	a.startRuns(ctx)
	a.run("backups", a.backups.Run)
	if a.tls, err = servertls.New(a.config.TLS, a.pki); err != nil {
		return err
	}
	a.metrics.MustRegister(a.tls.Metrics())
	a.run("expiry of the certificate", func(ctx context.Context) error { return a.tls.Watch(ctx, a.log) })
	return a.closeLobby(ctx)
}

func (a *App) openState(ctx context.Context) error {
	nats, err := a.connect(ctx)
	if err != nil {
		return err
	}
	a.nats = nats
	a.life.add("nats", func(context.Context) error { nats.Close(); return nil })
	a.metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "aibridge_store_reopened_total",
		Help: "Times an embedded server was opened anew because its files had failed.",
	}, func() float64 { return float64(nats.Reopened()) }))
	if err := a.takeLease(ctx); err != nil {
		return err
	}
	if err := a.stepForward(ctx); err != nil {
		return err
	}
	a.store, err = openStore(ctx, nats, a.config, a.log, func(o *store.Options) {
		o.Fence, o.Full, o.Budget, o.Registerer = a.lease != nil, a.disk.Check, a.quotas.Records(), a.metrics
	})
	if err != nil {
		return err
	}
	a.life.add("store", func(context.Context) error { a.store.Close(); return nil })
	return a.openClaims()
}

// openClaims chooses where claims are kept. A bridge that has its state to
// itself writes them to files, which is much quicker; one on an external NATS
// keeps them there, where a standby that takes over sees them.
func (a *App) openClaims() error {
	if a.config.NATS.URL != "" {
		a.claims = a.store.Claims()
		return nil
	}
	log, err := openClaimLog(a.config, a.log, a.metrics)
	if err != nil {
		return err
	}
	a.life.add("claims", func(context.Context) error { return log.Close() })
	a.claims = log
	return nil
}

func (a *App) openBroker(ctx context.Context, agents *registry.Service) error {
	journal, err := a.store.OpenJournal(ctx)
	if err != nil {
		return err
	}
	a.broker, err = mqttdoor.NewServer(mqttdoor.ServerOptions{
		Clients:       a.mqtt,
		Agents:        agents,
		Authenticator: a.authenticator,
		Credentials:   a.credentials,
		Rights:        a.rights,
		Quotas:        a.quotas,
		Broker: broker.Options{
			Log:        a.log,
			MaxPacket:  a.config.Limits.Payload + roomAroundPayload,
			Limits:     broker.Limits{TopicLevels: a.config.Limits.TopicLevels},
			Journal:    journal,
			Clock:      a.clock,
			Gate:       a.gate,
			Version:    a.version,
			Full:       a.disk.Low,
			Registerer: a.metrics,
		},
	})
	if err != nil {
		return err
	}
	a.audit.broker.Store(a.broker)
	a.broker.BeforeWrite(a.audit.Keep)
	a.life.add("broker", a.broker.Close)
	return nil
}

// run runs a part in the background until the bridge stops.
func (a *App) run(name string, part func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	a.life.add(name, func(context.Context) error {
		cancel()
		return <-done
	})
}

func (a *App) openAPI(set *commands.Set, agents *registry.Service) (err error) {
	if err := a.openFileDoors(); err != nil {
		return err
	}
	mounts := map[string]http.Handler{"/vfs/": a.files.web}
	a.openMCP(mounts)
	a.api, err = httpdoor.New(httpdoor.Options{
		Router:          a.router,
		Set:             set,
		Authenticate:    a.authenticate,
		Grants:          a.credentials,
		Agents:          agents,
		Enter:           a.enterSocket,
		Ready:           a.readiness,
		Metrics:         a.metricsFor(set),
		Backup:          a.backups.WriteFor,
		AllowedHosts:    a.config.Hosts,
		AllowedOrigins:  a.config.Origins,
		LoopbackOrigins: a.config.Dev,
		Limits:          a.limits(),
		Version:         a.version,
		BridgeID:        a.config.ID,
		Southbound:      a.southbound(),
		Mounts:          mounts,
		Log:             a.log,
	})
	if err != nil {
		return err
	}
	a.life.drain("api", a.api.Close)
	return nil
}

// A family is a service with commands.
type family interface{ Commands() []commands.Command }

// gather lists every command of the bridge.
func gather(families ...family) []commands.Command {
	all := commands.Builtin()
	for _, f := range families {
		all = append(all, f.Commands()...)
	}
	return all
}

// Commands are the commands that this version understands, for descriptions
// and help: they cannot be run.
func Commands() *commands.Set {
	set, err := commands.NewSet(gather(
		new(registry.Service), new(cap.Service), new(scene.Service), new(task.Service), new(session.Service),
		new(security.KeyService), new(security.TokenService), new(policy.Service), new(pki.Service),
		new(vfs.Service), new(caps.Service), new(servers.Service), new(llm.Service), new(chats.Service), new(approval.Service), new(run.Service), new(audit.Trail),
	)...)
	if err != nil {
		panic(fmt.Sprintf("a command is declared wrongly: %v", err)) // a test walks over all of them
	}
	return set
}

// compileSchema compiles a schema that came from an agent.
func compileSchema(text json.RawMessage) (func(json.RawMessage) error, error) {
	source, err := schema.NewSource(text)
	if err != nil {
		return nil, err
	}
	compiled, err := schema.Compile(source, schema.Annotate)
	if err != nil {
		return nil, err
	}
	return compiled.Check, nil
}
