package servers

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var serverList = commands.Spec{
	Name:    "mcp.server.list",
	Summary: "List the external MCP servers that the bridge is configured to use, and their tools.",
	Effect:  commands.Read,
	Action:  "mcp:server.list",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"server":"files"}`,
}

// ListParams are the params of mcp.server.list.
type ListParams struct {
	Server string `json:"server,omitempty" len:"1-32" doc:"only this one"`
}

// Target implements [commands.Targeter].
func (p ListParams) Target() commands.Resource { return resource(p.Server) }

// ListResult is the result of mcp.server.list.
type ListResult struct {
	Servers []ServerView `json:"servers" doc:"by name"`
	Total   int          `json:"total" doc:"number of servers in the answer, which has one page"`
}

// A ServerView is a server as operators see it.
type ServerView struct {
	Server   string     `json:"server" doc:"name of the server, as it is configured"`
	State    State      `json:"state" doc:"connecting, connected or down"`
	Since    int64      `json:"since" doc:"Unix milliseconds"`
	Problem  string     `json:"problem,omitempty" doc:"why it is down"`
	Product  string     `json:"product,omitempty" doc:"what the server calls itself"`
	Revision string     `json:"revision,omitempty" doc:"names its tools as they are now, for mcp.server.approve"`
	Tools    []ToolView `json:"tools" doc:"tools that the server has declared, by name; empty before it was first reached"`
}

// A ToolView is a tool of a server as operators see it.
type ToolView struct {
	Tool        string `json:"tool" doc:"name of the tool, as the server declares it"`
	State       string `json:"state" doc:"approved, new or changed; only approved ones are offered"`
	Description string `json:"description,omitempty" doc:"what the server says of it"`
}

// List shows the servers.
func (s *Service) List(_ context.Context, _ *commands.Call, p ListParams) (ListResult, error) {
	result := ListResult{Servers: []ServerView{}}
	for _, name := range s.names {
		if p.Server == "" || p.Server == name {
			result.Servers = append(result.Servers, s.links[name].view())
		}
	}
	if p.Server != "" && len(result.Servers) == 0 {
		_, err := s.link(p.Server)
		return ListResult{}, err
	}
	result.Total = len(result.Servers)
	return result, nil
}

func (l *link) view() ServerView {
	approved, _, _ := l.service.opts.Table.Get(l.config.Name)
	l.mu.Lock()
	defer l.mu.Unlock()
	v := ServerView{
		Server: l.config.Name, State: l.state, Since: l.since.UnixMilli(), Problem: l.problem, Product: l.server,
		Revision: revision(l.known), Tools: make([]ToolView, 0, len(l.known)),
	}
	for _, d := range l.known {
		v.Tools = append(v.Tools, ToolView{Tool: d.Name, State: approved.state(d), Description: short(d.Description, 512)})
	}
	return v
}

// state says whether a tool may be called.
func (a *Approved) state(d *declared) string {
	if a == nil || a.Tools[d.Name] == "" {
		return "new"
	}
	if a.Tools[d.Name] != d.hash {
		return "changed"
	}
	return "approved"
}
