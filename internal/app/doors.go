package app

import (
	"context"
	"maps"
	"net/http"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/status"
	"github.com/aibridge/aibridge/docs/site"
	"github.com/aibridge/aibridge/doors/files/transfer"
	httpdoor "github.com/aibridge/aibridge/doors/http"
	"github.com/aibridge/aibridge/doors/southbound"
	"github.com/aibridge/aibridge/internal/lifecycle"
	"github.com/aibridge/aibridge/internal/listen"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/policy"
	"github.com/aibridge/aibridge/security/servertls"
)

// The doors of a bridge, and the router that they lead to.
type doors struct {
	router  *commands.Router
	broker  *broker.Broker
	chunks  *transfer.Door
	mcp     *mcpDoor // nil if it is off
	api     *httpdoor.API
	tls     *servertls.Server
	ready   *lifecycle.Readiness
	web     http.Handler // of the HTTP listener
	sockets http.Handler // of the WebSocket listener
	servers *listen.Servers
}

// openDoors makes the doors. They accept no clients yet.
func openDoors(ctx context.Context, s *state, d *domains) (*doors, error) {
	server, err := openBroker(ctx, s, d)
	if err != nil {
		return nil, err
	}
	checks := partsOf(s, server, d.relay)
	ready := newReadiness(s, checks)
	readings := status.New(status.Options{
		Metrics: s.metrics, Version: s.version, BridgeID: s.config.ID, Ready: ready.Check,
		Settings: s.config.Show(), Cluster: s.Cluster(&s.config), Members: s.Members.Members, Absent: s.Members.Absent, Peers: d.relay.show, Checks: checks, Drainer: newDrainer(s, server, d.relay), Remover: &remover{s, d.relay}, Centre: s.showCentre,
		Links: func(ctx context.Context, who *protocol.Principal) *status.Links {
			return countLinks(d.links.Visible(ctx, who))
		},
	})
	s.life.Run("readings", readings.Run)
	if err := inspectMessages(s, server); err != nil {
		return nil, err
	}
	families := append(d.families(), readings, newSessions(s, d.relay), delayMessages(s, d, server), d.queues)
	set, err := commands.NewSet(append(gather(families...), s.commands...)...)
	if err != nil {
		return nil, err
	}
	chunks := openChunks(s, d, server)
	openReports(s, d, server)
	router := newRouter(s, d, set)
	s.promised.router.keep(router)
	south := southbound.New(southbound.Options{
		Router: router, Self: protocol.SouthboundPeer{Component: "mcpAgent", ID: s.config.LLM.Agent}, Limits: s.config.Limits.ForCommands(),
	})
	openMQTT(s, d, server, router, south)
	page, err := newConsole(s, d, set)
	if err != nil {
		return nil, err
	}
	authenticate := authenticateRequests(d, page)
	mcp := openMCP(s, d, server, router, authenticate)
	openMCPOverMQTT(s, d, server, mcp)
	mounts := map[string]http.Handler{}
	maps.Copy(mounts, page.Mounts())
	maps.Copy(mounts, site.Mounts())
	mcp.mount(mounts)
	openA2A(s, d, server, router, authenticate, mounts)
	mounts["/mqtt"] = pageTopics(server, authenticate)
	mounts["/asyncapi.json"] = asyncAPI(s, d, set, authenticate)
	mounts["/things"] = things(s, d, authenticate)
	mounts["/things/{skill}"] = mounts["/things"]
	api, err := newAPI(s, d, router, south, mounts, ready, authenticate)
	if err != nil {
		return nil, err
	}
	certificate, err := servertls.New(s.config.TLS, d.identities.pki, s.config.Data)
	if err != nil {
		return nil, err
	}
	s.metrics.MustRegister(certificate.Metrics())
	return &doors{
		router: router, broker: server, chunks: chunks, mcp: mcp, api: api, tls: certificate, ready: ready,
		web: certificate.Challenges(besidePKI(api, d.identities.pki.Handler())), sockets: webSockets(api, server), servers: new(listen.Servers),
	}, nil
}

func newRouter(s *state, d *domains, set *commands.Set) *commands.Router {
	o := commands.RouterOptions{
		Clock:       s.clock,
		Authorizer:  s.authorizer,
		Credentials: s.credentials,
		Claims:      s.Claims,
		Digester:    s.audit,
		Tasks:       d.tasks,
		Extensions:  s.extensions,
		Forwarder:   d.agents,
		Namespaces:  d.namespaces,
		Schemas:     compileSchema,
		Reserved:    policy.Reserved(set),
		BridgeID:    s.config.ID,
		Doors:       s.addresses.Doors(),
		Workers:     s.config.Limits.Workers,
		MaxInFlight: s.config.Limits.InFlight,
		Limits:      s.config.Limits.ForCommands(),
		Log:         s.log,
		Refused:     s.promised.witness.value().Command,
		Tracer:      s.tracer,
		Registerer:  s.metrics,
	}
	if d.relay != nil {
		o.ClaimDigester, o.Sealer, o.State = d.relay.claims, s.seals, s.Store
	}
	if s.config.Audit.Level != string(audit.Off) { // recording nothing costs calls nothing
		o.Auditor = s.audit
	}
	if !s.quotas.None() { // nor do absent limits
		o.Limiter = s.quotas
	}
	return commands.NewRouter(set, o)
}

// partsOf are the parts that work cannot be done without.
func partsOf(s *state, server *broker.Broker, shared *relaying) []status.Check {
	parts := append(s.Checks(), status.Check{Name: "audit", Check: s.audit.Check}, status.Check{Name: "mqtt", Check: server.Check}, status.Check{Name: "disk", Check: s.disk.Check})
	if shared != nil {
		parts = append(parts, status.Check{Name: "relay", Check: func() error { return heard(shared.Peers()) }})
	}
	return parts
}

// newReadiness asks every part that work cannot be done without.
func newReadiness(s *state, parts []status.Check) *lifecycle.Readiness {
	checks := make([]func() error, len(parts))
	for i, p := range parts {
		checks[i] = p.Check
	}
	return lifecycle.NewReadiness(s.log, checks...)
}
