package app

import (
	"context"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	filesdoor "github.com/aibridge/aibridge/doors/files"
	httpdoor "github.com/aibridge/aibridge/doors/http"
	"github.com/aibridge/aibridge/doors/southbound"
	"github.com/aibridge/aibridge/internal/lifecycle"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/security/policy"
	"github.com/aibridge/aibridge/security/quota"
)

// newAPI makes the HTTP door, with the mounts of others and that of files.
func newAPI(s *state, d *domains, router *commands.Router, south *southbound.Translator, mounts map[string]http.Handler, ready *lifecycle.Readiness, authenticate authentication) (*httpdoor.API, error) {
	var api promise[httpdoor.API] // which has the files among its mounts, and is asked by them
	files, err := newFileDoor(s, d, authenticate, func() http.Handler { return api.value().Envelopes() })
	if err != nil {
		return nil, err
	}
	mounts["/vfs/"] = files
	if err := mountFileDoors(s, d, files, mounts); err != nil {
		return nil, err
	}
	made, err := httpdoor.New(httpdoor.Options{
		Router:          router,
		Set:             router.Set(),
		Authenticate:    authenticate,
		Keep:            s.audit.Keep,
		Grants:          s.credentials,
		Agents:          d.agents,
		Enter:           enterSocket(s.quotas),
		Ready:           ready.Check,
		Metrics:         metricsFor(s, router.Set()),
		Backup:          d.backups.WriteFor,
		ExportAudit:     newTrailExport(s, d.audits).WriteFor,
		AllowedHosts:    s.config.Hosts,
		AllowedOrigins:  s.config.Origins,
		LoopbackOrigins: s.config.Dev,
		Limits:          s.config.Limits.ForCommands(),
		Version:         s.version,
		BridgeID:        s.config.ID,
		Southbound:      south,
		Mounts:          mounts,
		Log:             s.log,
	})
	if err != nil {
		return nil, err
	}
	api.keep(made)
	return made, nil
}

// newFileDoor makes the door to files. Each request counts as a command.
func newFileDoor(s *state, d *domains, authenticate authentication, envelopes func() http.Handler) (*filesdoor.Handler, error) {
	return filesdoor.New(filesdoor.Options{
		Service: d.files.Service,
		Authenticate: func(r *http.Request) (*protocol.Principal, error) {
			who, err := authenticate(r)
			if err != nil {
				return nil, err
			}
			if limited := s.quotas.Admit(who, 0); limited != nil {
				return nil, limited
			}
			return who, nil
		},
		Authorize: s.authorizer.Authorize,
		Grants:    s.credentials,
		Sync:      http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { envelopes().ServeHTTP(w, r) }),
		Spool:     d.files.incoming,
		Record:    recordDeeds(s),
		MaxFile:   s.config.VFS.MaxFile,
		Log:       s.log,
	})
}

// enterSocket counts a connection of the API's.
func enterSocket(quotas *quota.Keeper) func(who *protocol.Principal) (leave func(), err *protocol.Error) {
	return func(who *protocol.Principal) (leave func(), err *protocol.Error) {
		leave = func() { quotas.Disconnect(who) }
		if err := quotas.Connect(who); err != nil {
			leave()
			return nil, err
		}
		return leave, nil
	}
}

// metricsFor yields the metrics that a principal may see: all of them for one that may do
// everything in every space.
func metricsFor(s *state, set *commands.Set) func(context.Context, *protocol.Principal) (prometheus.Gatherer, error) {
	own := func(command string) bool { _, ok := set.Find(command); return ok }
	return func(ctx context.Context, who *protocol.Principal) (prometheus.Gatherer, error) {
		if err := s.authorizer.Authorize(ctx, who, policy.ReadMetrics, commands.Resource{Type: "metrics", Space: who.Home()}); err != nil {
			return nil, err
		}
		if who.Unbounded() {
			return s.metrics, nil
		}
		return httpdoor.TenantMetrics{All: s.metrics, Space: who.Home(), Own: own}, nil
	}
}

// besidePKI serves the public paths of package pki in front of the API. Reads of
// them need no guard, as they are public; only changes are guarded against pages of
// other sites.
func besidePKI(api *httpdoor.API, public http.Handler) http.Handler {
	guarded := api.Guard().Wrap(public)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, "/pki/"):
			api.ServeHTTP(w, r)
		case r.Method == http.MethodGet || r.Method == http.MethodHead:
			public.ServeHTTP(w, r)
		default:
			guarded.ServeHTTP(w, r)
		}
	})
}

// pageTopics lets the page of the console at topics: MQTT over WebSocket,
// authenticated by the HTTP request, at the address of the page.
func pageTopics(server *broker.Broker, authenticate authentication) http.Handler {
	known := func(r *http.Request) *grant.Grant {
		sender, _ := r.Context().Value(senderKey{}).(*grant.Grant)
		return sender
	}
	connect := server.WebSocketOf("http", known)
	return httpdoor.Upgrading("this is MQTT over WebSocket, for the page of this bridge", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := authenticate(r)
		if err != nil {
			httpdoor.Refuse(w, err)
			return
		}
		sender := grant.Of(who)
		connect.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), senderKey{}, &sender)))
	}))
}

// senderKey is the key of the sender's credential in the context of a request.
type senderKey struct{}

// webSockets is the handler of the WebSocket listener.
func webSockets(api *httpdoor.API, server *broker.Broker) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mqtt", api.Guard().Wrap(httpdoor.Upgrading("this is MQTT over WebSocket: connect to it with an MQTT client", server.WebSocket("ws"))))
	mux.Handle("/ws", api.WebSocket())
	mux.Handle("/{$}", api.WebSocket())
	mux.Handle("/", api.Guard().Wrap(httpdoor.Nothing("this port has MQTT at /mqtt and envelopes at /ws, both over WebSocket")))
	return mux
}
