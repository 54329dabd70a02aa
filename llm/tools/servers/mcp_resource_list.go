package servers

import (
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var resourceList = commands.Spec{
	Name:    "mcp.resource.list",
	Summary: "List the resources of external MCP servers that the caller may read.",
	Effect:  commands.Read,
	Action:  "mcp:resource.list",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"server":"files"}`,
}

// ResourcesParams are the params of mcp.resource.list.
type ResourcesParams struct {
	Server string `json:"server,omitempty" len:"1-32" doc:"only of this one"`
	Limit  int    `json:"limit,omitempty" range:"1-1000" default:"100" doc:"number of resources at most"`
	Cursor string `json:"cursor,omitempty" len:"1-4096" doc:"next_cursor of the page before"`
}

// Target implements [commands.Targeter].
func (p ResourcesParams) Target() commands.Resource { return resource(p.Server) }

// ResourcesResult is the result of mcp.resource.list.
type ResourcesResult struct {
	Resources  []ResourceView `json:"resources" doc:"by server and URI"`
	Templates  []TemplateView `json:"templates" doc:"approved templates of URIs that can be read as well; on the first page"`
	Total      int            `json:"total" doc:"number of resources on all pages"`
	NextCursor string         `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// A ResourceView is a resource of a server. Its texts are the server's: data,
// and no instructions.
type ResourceView struct {
	Server      string `json:"server" doc:"name of the server, as it is configured"`
	URI         string `json:"uri" doc:"as the server gives it, for mcp.resource.read"`
	Name        string `json:"name,omitempty" doc:"name that the server has for it, shortened"`
	Description string `json:"description,omitempty" doc:"description by the server, marked as data; only of trusted servers"`
	MIMEType    string `json:"mime_type,omitempty" doc:"media type; absent if the server does not say"`
	Size        int64  `json:"size,omitempty" doc:"bytes; absent if the server does not say"`
}

// A TemplateView is a template of URIs (RFC 6570) of a server.
type TemplateView struct {
	Server      string `json:"server" doc:"name of the server, as it is configured"`
	URITemplate string `json:"uri_template" doc:"as the server gives it; expanded, it can be read"`
	Name        string `json:"name,omitempty" doc:"name that the server has for it, shortened"`
	Description string `json:"description,omitempty" doc:"description by the server, marked as data"`
	MIMEType    string `json:"mime_type,omitempty" doc:"media type of all that fit; absent if the server does not say"`
}

// PublicURI is the URI of the resource for clients of the bridge.
func (v *ResourceView) PublicURI() string { return PublicURI(v.Server, v.URI) }

// Resources lists the resources that the caller may read.
func (s *Service) Resources(ctx context.Context, call *commands.Call, p ResourcesParams) (ResourcesResult, error) {
	if p.Server != "" {
		if _, err := s.connection(call.Principal, p.Server); err != nil {
			return ResourcesResult{}, err
		}
	}
	result := ResourcesResult{Resources: []ResourceView{}, Templates: []TemplateView{}}
	all, templates := s.Readable(ctx, call.Principal)
	if p.Server != "" {
		all = slices.DeleteFunc(all, func(v ResourceView) bool { return v.Server != p.Server })
		templates = slices.DeleteFunc(templates, func(v TemplateView) bool { return v.Server != p.Server })
	}
	result.Total = len(all)
	if p.Cursor == "" {
		result.Templates = append(result.Templates, templates...)
	}
	for i := range all {
		if p.Cursor != "" && all[i].PublicURI() <= p.Cursor {
			continue
		}
		if len(result.Resources) == max(p.Limit, 1) {
			result.NextCursor = all[i-1].PublicURI()
			break
		}
		result.Resources = append(result.Resources, all[i])
	}
	return result, ctx.Err()
}

// Readable lists the resources that a principal may read, by [ResourceView.PublicURI],
// and the templates of further ones.
func (s *Service) Readable(ctx context.Context, who *protocol.Principal) ([]ResourceView, []TemplateView) {
	var all []ResourceView
	var templates []TemplateView
	for _, l := range s.known(who) {
		if !l.may(ctx, who, resourceRead.Action) {
			continue
		}
		open := l.open()
		for _, r := range open.resources {
			v := ResourceView{Server: l.config.Name, URI: r.is.URI, Name: plain(r.is.Name, maxName), MIMEType: plain(r.is.MIMEType, maxName), Size: max(r.is.Size, 0)}
			if l.config.Trusted { // resources come and go without approval, so this text was not reviewed
				v.Description = l.marked(r.is.Title, r.is.Description)
			}
			all = append(all, v)
		}
		for _, t := range open.templates {
			templates = append(templates, TemplateView{
				Server: l.config.Name, URITemplate: t.is.URITemplate, Name: plain(t.is.Name, maxName),
				Description: l.marked(t.is.Title, t.is.Description), MIMEType: plain(t.is.MIMEType, maxName),
			})
		}
	}
	slices.SortFunc(all, func(x, y ResourceView) int { return strings.Compare(x.PublicURI(), y.PublicURI()) })
	return all, templates
}
