package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var serverApprove = commands.Spec{
	Name:    "mcp.server.approve",
	Summary: "Approve tools of an external MCP server as they are now, so that they are offered.",
	Effect:  commands.Write,
	Action:  "mcp:server.approve",
	Errors:  []protocol.Code{protocol.NotFound, protocol.RevisionConflict, protocol.TargetUnavailable},
	Example: `{"server":"files","revision":"3f2a8c0d5e6b7a91","tools":["read"]}`,
}

// ApproveParams are the params of mcp.server.approve.
type ApproveParams struct {
	Server   string   `json:"server" len:"1-32" doc:"the server"`
	Revision string   `json:"revision" len:"16" doc:"of mcp.server.list: what was looked at before approving"`
	Tools    []string `json:"tools,omitempty" len:"0-512" each:"1-256" doc:"which tools; all when absent"`
}

// Target implements [commands.Targeter].
func (p ApproveParams) Target() commands.Resource { return resource(p.Server) }

// ApproveResult is the result of mcp.server.approve.
type ApproveResult struct {
	Server   string   `json:"server" doc:"name of the server, as it is configured"`
	Approved []string `json:"approved" doc:"all tools that are offered now"`
}

// Approve approves tools. What the server declares must still be what was
// looked at.
func (s *Service) Approve(ctx context.Context, call *commands.Call, p ApproveParams) (ApproveResult, error) {
	l, err := s.link(p.Server)
	if err != nil {
		return ApproveResult{}, err
	}
	l.mu.Lock()
	known := l.known
	l.mu.Unlock()
	if len(known) == 0 {
		return ApproveResult{}, protocol.Errorf(protocol.TargetUnavailable, "the server has shown no tools yet").With("server", p.Server)
	}
	if now := revision(known); p.Revision != now {
		return ApproveResult{}, protocol.Errorf(protocol.RevisionConflict, "the server's tools have changed: look at them again").With("revision", now)
	}
	approved := &Approved{Tools: make(map[string]string), By: call.Principal.ID, At: s.opts.Now().UnixMilli()}
	if old, _, ok := s.opts.Table.Get(p.Server); ok {
		maps.Copy(approved.Tools, old.Tools)
	}
	for _, name := range p.Tools {
		if !slices.ContainsFunc(known, func(d *declared) bool { return d.Name == name }) {
			return ApproveResult{}, protocol.Errorf(protocol.NotFound, "the server has no tool %.100q", name).With("param_name", "tools")
		}
	}
	result := ApproveResult{Server: p.Server, Approved: []string{}}
	for _, d := range known {
		if len(p.Tools) == 0 || slices.Contains(p.Tools, d.Name) {
			approved.Tools[d.Name] = d.hash
		}
		if approved.Tools[d.Name] == d.hash {
			result.Approved = append(result.Approved, d.Name)
		}
	}
	maps.DeleteFunc(approved.Tools, func(name, _ string) bool {
		return !slices.ContainsFunc(known, func(d *declared) bool { return d.Name == name })
	})
	if _, err := s.opts.Table.Put(ctx, p.Server, approved); err != nil {
		return ApproveResult{}, err
	}
	l.reconsider()
	return result, nil
}

// revision names what a server declares.
func revision(known []*declared) string {
	if len(known) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, d := range known {
		sum.Write([]byte(d.hash))
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
