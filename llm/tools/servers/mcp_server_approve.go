package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var serverApprove = commands.Spec{
	Name:    "mcp.server.approve",
	Summary: "Approve tools, prompts and resources of an external MCP server as they are now, so that they are offered.",
	Effect:  commands.Write,
	Action:  "mcp:server.approve",
	Errors:  []protocol.Code{protocol.NotFound, protocol.RevisionConflict, protocol.TargetUnavailable},
	Example: `{"server":"files","revision":"3f2a8c0d5e6b7a91","tools":["read"]}`,
}

// ApproveParams are the params of mcp.server.approve.
type ApproveParams struct {
	Server    string   `json:"server" len:"1-32" doc:"the server"`
	Revision  string   `json:"revision" len:"16" doc:"revision from mcp.server.list of the declarations that were reviewed"`
	Tools     []string `json:"tools,omitempty" len:"0-512" each:"1-256" doc:"names of tools; everything is approved without any names"`
	Prompts   []string `json:"prompts,omitempty" len:"0-512" each:"1-256" doc:"which prompts"`
	Templates []string `json:"templates,omitempty" len:"0-256" each:"1-2048" doc:"which templates of resources, by URI template"`
	Resources bool     `json:"resources,omitempty" doc:"the resources: all of them, now and later"`
}

// Target implements [commands.Targeter].
func (p ApproveParams) Target() commands.Resource { return resource(p.Server) }

// ApproveResult is the result of mcp.server.approve.
type ApproveResult struct {
	Server    string   `json:"server" doc:"name of the server, as it is configured"`
	Approved  []string `json:"approved" doc:"all tools that are offered now"`
	Prompts   []string `json:"prompts" doc:"all prompts that are offered now"`
	Templates []string `json:"templates" doc:"all templates that are offered now"`
	Resources bool     `json:"resources" doc:"true if its resources can be read now"`
}

// Approve approves the named tools, prompts, templates and resources. It fails if the
// server has changed its declarations since the revision that the caller has seen.
func (s *Service) Approve(ctx context.Context, call *commands.Call, p ApproveParams) (ApproveResult, error) {
	l, err := s.connection(call.Principal, p.Server)
	if err != nil {
		return ApproveResult{}, err
	}
	l.mu.Lock()
	known, has := l.known, l.library
	l.mu.Unlock()
	now := revision(known, has)
	if now == "" {
		return ApproveResult{}, protocol.Errorf(protocol.TargetUnavailable, "the server has shown nothing yet").With("server", p.Server)
	}
	if p.Revision != now {
		return ApproveResult{}, protocol.Errorf(protocol.RevisionConflict, "the declarations of the server have changed meanwhile: review them again").With("revision", now)
	}
	approved, _, err := records.Change(ctx, s.opts.Table, l.key, func(old *Approved, _ uint64) (*Approved, error) {
		if old != nil && old.Owner != l.owner() {
			return nil, protocol.Errorf(protocol.RevisionConflict, "another principal's device of that name was approved meanwhile").With("server", p.Server)
		}
		next, err := p.added(old, known, has, call.Principal, s.opts.Now())
		if err == nil {
			next.Owner = l.owner()
		}
		return next, err
	})
	if err != nil {
		return ApproveResult{}, err
	}
	l.reconsider()
	return approved.result(p.Server, known, has), nil
}

// added is the next record of approvals: the previous ones with the named entries, or
// with all entries of the server.
func (p ApproveParams) added(old *Approved, known []*declared, has *library, by *protocol.Principal, at time.Time) (next *Approved, err error) {
	if old == nil {
		old = &Approved{}
	}
	every := len(p.Tools)+len(p.Prompts)+len(p.Templates) == 0 && !p.Resources
	next = &Approved{By: by.ID, At: at.UnixMilli(), Resources: has.readable && (old.Resources || p.Resources || every)}
	if next.Tools, err = approve("tools", toolHashes(known), old.Tools, p.Tools, every); err != nil {
		return nil, err
	}
	if next.Prompts, err = approve("prompts", hashes(has.prompts), old.Prompts, p.Prompts, every); err != nil {
		return nil, err
	}
	next.Templates, err = approve("templates", hashes(has.templates), old.Templates, p.Templates, every)
	return next, err
}

// approve adds the named entries, or all, to those approved before. Entries that the
// server no longer has are dropped.
func approve(param string, known, before map[string]string, named []string, every bool) (map[string]string, error) {
	approved := make(map[string]string, len(known))
	for _, name := range named {
		if known[name] == "" {
			return nil, protocol.Errorf(protocol.NotFound, "the server has no %.100q", name).With("param_name", param)
		}
		approved[name] = known[name]
	}
	for name, hash := range known {
		switch {
		case every:
			approved[name] = hash
		case approved[name] == "" && before[name] != "":
			approved[name] = before[name]
		}
	}
	return approved, nil
}

// result lists the tools offered now.
func (a *Approved) result(server string, known []*declared, has *library) ApproveResult {
	open := has.approved(a)
	result := ApproveResult{Server: server, Approved: []string{}, Prompts: []string{}, Templates: []string{}, Resources: open.readable}
	for _, d := range known {
		if a.Tools[d.Name] == d.hash {
			result.Approved = append(result.Approved, d.Name)
		}
	}
	for _, one := range open.prompts {
		result.Prompts = append(result.Prompts, one.key)
	}
	for _, one := range open.templates {
		result.Templates = append(result.Templates, one.key)
	}
	return result
}

func toolHashes(known []*declared) map[string]string {
	m := make(map[string]string, len(known))
	for _, d := range known {
		m[d.Name] = d.hash
	}
	return m
}

// revision is a hash of a server's declarations, "" for none. Resources come and go
// without changing it.
func revision(known []*declared, has *library) string {
	if len(known)+len(has.prompts)+len(has.templates) == 0 && !has.readable {
		return ""
	}
	sum := sha256.New()
	for _, d := range known {
		sum.Write([]byte(d.hash))
	}
	for _, one := range has.prompts {
		sum.Write([]byte("p" + one.hash))
	}
	for _, one := range has.templates {
		sum.Write([]byte("t" + one.hash))
	}
	if has.readable {
		sum.Write([]byte("r"))
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
