package servers

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var serverList = commands.Spec{
	Name:    "mcp.server.list",
	Summary: "List the external MCP servers that the bridge uses, and what those have.",
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

// A ServerView is a server in the results for operators.
type ServerView struct {
	Server    string          `json:"server" doc:"name of the server, as in the names of its tools"`
	State     State           `json:"state" doc:"connecting, connected or down"`
	Since     int64           `json:"since" doc:"Unix milliseconds"`
	Problem   string          `json:"problem,omitempty" doc:"reason why it is down"`
	Device    *DeviceView     `json:"device,omitempty" doc:"owner of the device; absent for a server of the configuration"`
	Product   string          `json:"product,omitempty" doc:"name that the server gives itself"`
	Revision  string          `json:"revision,omitempty" doc:"hash of its current declarations, for mcp.server.approve"`
	Tools     []ToolView      `json:"tools" doc:"tools that the server has declared, by name; empty before it was first reached"`
	Prompts   []PromptState   `json:"prompts" doc:"its prompts, by name"`
	Templates []TemplateState `json:"templates" doc:"its templates of resources, by URI template"`
	Resources ResourcesState  `json:"resources" doc:"its resources, which are approved as a whole"`
}

// A DeviceView is a device that is a server.
type DeviceView struct {
	Owner   protocol.Party `json:"owner" doc:"announcer: space/kind/id"`
	Clients []string       `json:"clients" doc:"MQTT client ids that serve it, one of which is in use"`
}

// A ToolView is a tool of a server in the results for operators.
type ToolView struct {
	Tool        string `json:"tool" doc:"name of the tool, as the server declares it"`
	State       string `json:"state" doc:"approved, new or changed; only approved ones are offered"`
	Description string `json:"description,omitempty" doc:"description by the server"`
}

// A PromptState is a prompt of a server in the results for operators.
type PromptState struct {
	Prompt      string `json:"prompt" doc:"name of the prompt, as the server declares it"`
	State       string `json:"state" doc:"approved, new or changed; only approved ones are offered"`
	Description string `json:"description,omitempty" doc:"description by the server"`
}

// A TemplateState is a template of resources in the results for operators.
type TemplateState struct {
	URITemplate string `json:"uri_template" doc:"as the server declares it (RFC 6570)"`
	State       string `json:"state" doc:"approved, new or changed; only approved ones are offered"`
	Description string `json:"description,omitempty" doc:"description by the server"`
}

// A ResourcesState is the state of a server's resources, for operators.
type ResourcesState struct {
	State string `json:"state" doc:"approved, new, or none if the server has none"`
	Total int    `json:"total" doc:"number of listed resources; mcp.resource.list has them once they are approved"`
}

// List shows the servers.
func (s *Service) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	result := ListResult{Servers: []ServerView{}}
	for _, l := range s.known(call.Principal) {
		if p.Server == "" || p.Server == l.config.Name {
			result.Servers = append(result.Servers, l.view())
		}
	}
	if p.Server != "" && len(result.Servers) == 0 {
		_, err := s.connection(call.Principal, p.Server)
		return ListResult{}, err
	}
	result.Total = len(result.Servers)
	return result, nil
}

func (l *connection) view() ServerView {
	approved := l.approved()
	l.mu.Lock()
	defer l.mu.Unlock()
	v := ServerView{
		Server: l.config.Name, State: l.state, Since: l.since.UnixMilli(), Problem: l.problem, Product: l.server,
		Device:   l.of(),
		Revision: revision(l.known, l.library), Tools: make([]ToolView, 0, len(l.known)),
		Prompts: []PromptState{}, Templates: []TemplateState{}, Resources: ResourcesState{Total: len(l.library.resources)},
	}
	if approved == nil {
		approved = &Approved{}
	}
	for _, d := range l.known {
		v.Tools = append(v.Tools, ToolView{Tool: d.Name, State: state(approved.Tools[d.Name], d.hash), Description: short(d.Description, 512)})
	}
	for _, p := range l.library.prompts {
		v.Prompts = append(v.Prompts, PromptState{p.key, state(approved.Prompts[p.key], p.hash), short(p.is.Description, 512)})
	}
	for _, t := range l.library.templates {
		v.Templates = append(v.Templates, TemplateState{t.key, state(approved.Templates[t.key], t.hash), short(t.is.Description, 512)})
	}
	switch {
	case !l.library.readable:
		v.Resources.State = "none"
	case !approved.Resources:
		v.Resources.State = "new"
	default:
		v.Resources.State = "approved"
	}
	return v
}

// state is the state of an entry, by its approved hash and its current one.
func state(approved, now string) string {
	switch approved {
	case "":
		return "new"
	case now:
		return "approved"
	}
	return "changed"
}
