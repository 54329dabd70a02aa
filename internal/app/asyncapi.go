package app

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"

	"github.com/aibridge/aibridge/commands"
	httpdoor "github.com/aibridge/aibridge/doors/http"
	"github.com/aibridge/aibridge/doors/http/asyncapi"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
)

// maxDescribed bounds the capabilities of skills in one document.
const maxDescribed = 1000

// asyncAPI serves the AsyncAPI document of the topics that a caller may use.
func asyncAPI(s *state, d *domains, set *commands.Set, authenticate authentication) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this path takes GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		who, err := authenticate(r)
		if err == nil {
			if limited := s.quotas.Admit(who, 0); limited != nil {
				err = limited
			}
		}
		var text []byte
		if err == nil {
			text, err = asyncapi.Document(usableBy(r, s, d, set, who))
		}
		if err != nil {
			httpdoor.Refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.aai.asyncapi+json;version=3.0.0")
		_, _ = w.Write(text)
	})
}

// usableBy is the part that a principal may use, at the address that its client knows the
// bridge by.
func usableBy(r *http.Request, s *state, d *domains, set *commands.Set, who *protocol.Principal) asyncapi.Options {
	o := asyncapi.Options{
		Root: s.topics.Root(), Version: cmp.Or(s.version, "0.0.0"),
		MQTT: seenFrom(r, s.addresses.MQTT), MQTTS: seenFrom(r, s.addresses.MQTTS),
	}
	for c := range set.All() {
		if mayRun(r.Context(), s, who, c.Action) {
			o.Commands = append(o.Commands, c)
		}
	}
	for _, skill := range skillsFor(r.Context(), s, d, who) {
		for i := range skill.Capabilities {
			c := &skill.Capabilities[i]
			if len(o.Capabilities) == maxDescribed {
				return o
			}
			if c.Sealed != registry.SealedRequired {
				o.Capabilities = append(o.Capabilities, asyncapi.Capability{
					Skill: skill.ID, ID: c.ID, Description: cmp.Or(c.Description, c.Name),
					Params: json.RawMessage(c.ParamsSchema.String()), Result: json.RawMessage(c.ResultSchema.String()),
				})
			}
		}
	}
	return o
}

// mayRun reports whether a principal may run commands of an action: as such, or on the
// resource with its own id, as agents may.
func mayRun(ctx context.Context, s *state, who *protocol.Principal, action string) bool {
	family, _, _ := strings.Cut(action, ":")
	return s.judge.MayRunCommands(ctx, who, action) == nil ||
		s.authorizer.Authorize(ctx, who, action, commands.Resource{Type: family, ID: who.ID, Space: who.Home()}) == nil
}

// seenFrom is the address of a listener at the host that a request was sent to,
// "" for no listener.
func seenFrom(r *http.Request, address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return net.JoinHostPort(host, port)
}
