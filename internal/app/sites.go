package app

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/status"
	"github.com/aibridge/aibridge/connect/link"
	"github.com/aibridge/aibridge/connect/site"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/registry/shadow"
	"github.com/aibridge/aibridge/vfs"
)

// joinCentre makes this bridge a site of another one, if configured; it does not
// connect yet.
func joinCentre(s *state, d *domains) {
	if s.config.Sites.Join.Name == "" {
		return
	}
	var joined *site.Site
	joined = site.New(site.Options{
		Join: s.config.Sites.Join, Have: s.config.Sites.Have,
		Router: func() site.Router { return s.promised.router.value() },
		Authenticate: func(ctx context.Context, key string) (*protocol.Principal, error) {
			return d.identities.authenticator.Header(ctx, site.Door, http.Header{}, key)
		},
		Reported: func(space protocol.SpaceID, agent protocol.AgentID, skill protocol.SkillID) (json.RawMessage, bool) {
			return d.shadows.Reported(space, agent, skill)
		},
		LocalFiles: localFiles(s, d),
		Carry:      func(caps []protocol.CapID) { d.links.Carry(centreLink, capRules(s.topics, joined.Name, caps)) },
		Registerer: s.metrics, Log: s.log,
	})
	d.skills.OnChange(func(string, *registry.SkillRecord, *registry.SkillRecord) { joined.Stir() })
	s.clients.OnPublish(func(_ protocol.Recipients, m protocol.Message) {
		if _, ok := s.topics.StateOf(m.Topic); ok && strings.HasSuffix(m.Topic, "/"+string(shadow.Reported)) {
			joined.Stir()
		}
	})
	s.promised.site.keep(joined)
}

// localFiles are the files of a group of this bridge, for principals that may read them with
// their versions.
func localFiles(s *state, d *domains) func(ctx context.Context, who *protocol.Principal, group string) (vfs.Files, error) {
	return func(ctx context.Context, who *protocol.Principal, group string) (vfs.Files, error) {
		for _, action := range []string{"vfs:list", "vfs:read", "vfs:versions"} {
			if err := s.authorizer.Authorize(ctx, who, action, commands.Resource{Type: "vfs", ID: group, Space: who.Home()}); err != nil {
				return nil, err
			}
		}
		return d.files.For(ctx, who, group, false)
	}
}

// followFiles has a site show the files of this bridge, too, and follow their changes, also
// those that other bridges of a cluster make.
func followFiles(s *state, records *store.Table[vfs.Record]) {
	joined := s.promised.site.value()
	if joined == nil || len(joined.Files) == 0 {
		return
	}
	records.OnChange(func(_ string, old, now *vfs.Record) {
		if r := cmp.Or(now, old); r.Upload == nil {
			joined.FileChanged(r.Space, r.Group, r.Path)
		}
	})
}

// centreLink is the name of the link by which messages of Caps go to the centre and
// come from it.
const centreLink = "site"

// centreLinks are the links to the centre of this bridge: one if it is a site that shows
// Caps.
func centreLinks(j *site.Join) []link.Config {
	if j.Name == "" || len(j.Caps) == 0 {
		return nil
	}
	return []link.Config{{
		Name: centreLink, URL: j.URL, Password: j.Key, CA: j.CA, Principal: j.Principal, ClientID: "site-" + j.Name + ".caps", Guided: true,
	}}
}

// capRules carry the messages of a site's Caps in both directions, with the QoS that they
// have.
func capRules(here protocol.Topics, site string, caps []protocol.CapID) link.Rules {
	there := protocol.NewTopics("")
	var rules link.Rules
	for _, id := range caps {
		r := link.Rule{Topic: "#", Local: here.CapMessage(id, ""), Remote: there.CapMessage(protocol.CapID(site+"."+string(id)), ""), QoS: 2}
		rules.Out, rules.In = append(rules.Out, r), append(rules.In, r)
	}
	return rules
}

// showCaps has a site show the Caps of this bridge, too, and follow their changes.
func showCaps(s *state, channels *cap.Service, tables *capTables) {
	joined := s.promised.site.value()
	if joined == nil || len(joined.Caps) == 0 {
		return
	}
	channels.OnFactsChange(joined.Stir)
	tables.data.OnChange(func(string, *cap.Datum, *cap.Datum) { joined.Stir() })
}

// startSite has a site show its agents to the centre: in a cluster one bridge does.
func startSite(s *state) {
	if joined := s.promised.site.value(); joined != nil {
		s.life.Run("centre of the site", s.once(joined.Run))
	}
}

// showCentre is the centre of this bridge, for principals of the space whose agents
// are shown there.
func (s *state) showCentre(to *protocol.Principal) *status.Centre {
	joined := s.promised.site.value()
	if joined == nil {
		return nil
	}
	v, running := joined.Look()
	if !running || !to.Unbounded() && v.Space != to.Home() {
		return nil
	}
	return &status.Centre{
		Site: joined.Name, URL: joined.URL, State: string(v.State), Since: v.Since.UnixMilli(), Problem: v.Problem, Agents: v.Agents, NotShown: v.NotShown,
	}
}
