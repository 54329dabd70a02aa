package registry

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
)

var resourceList = commands.Spec{
	Name:    "resource.list",
	Summary: "List the resources of a space.",
	Effect:  commands.Read,
	Action:  "resource:list",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"type":"device"}`,
}

// ListResourcesParams are the params of resource.list.
type ListResourcesParams struct {
	Space protocol.SpaceID `json:"space_id,omitempty" doc:"the space, the caller's own by default"`
	Type  string           `json:"type,omitempty" len:"1-32" doc:"only resources of this type"`
	listing.Page
}

// Target implements [commands.Targeter].
func (p ListResourcesParams) Target() commands.Resource {
	return commands.Resource{Type: "resource", Space: p.Space}
}

// ListResourcesResult is the result of resource.list.
type ListResourcesResult struct {
	Resources  []ResourceSummary `json:"resources" doc:"the resources of this page, by id; empty if none fits"`
	Total      int               `json:"total" doc:"number of resources on all pages"`
	NextCursor string            `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// A ResourceSummary is a resource in a list.
type ResourceSummary struct {
	ResourceID protocol.ResourceID `json:"resource_id" doc:"id of the resource, unique in its space"`
	Name       string              `json:"name" doc:"name for people"`
	Type       string              `json:"type" doc:"kind of resource as its owner named it, such as room"`
	Space      protocol.SpaceID    `json:"space_id" doc:"id of the space that the resource belongs to"`
	Status     string              `json:"status" doc:"status as the owner of the resource gave it; active by default"`
}

// ListResources lists the resources of a space by id.
func (s *Service) ListResources(_ context.Context, call *commands.Call, p ListResourcesParams) (ListResourcesResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return ListResourcesResult{}, err
	}
	q := query[*ResourceRecord]{Page: p.Page}
	if p.Type != "" {
		q.match = func(r *ResourceRecord) bool { return r.Type == p.Type }
	}
	found, err := s.index.resources(space, q)
	if err != nil {
		return ListResourcesResult{}, err
	}
	result := ListResourcesResult{Resources: make([]ResourceSummary, len(found.Items)), Total: found.Total, NextCursor: found.Next}
	for i, r := range found.Items {
		result.Resources[i] = ResourceSummary{r.ID, r.Name, r.Type, r.Space, r.Status}
	}
	return result, nil
}
