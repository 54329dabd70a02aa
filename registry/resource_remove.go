package registry

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var resourceRemove = commands.Spec{
	Name:    "resource.remove",
	Summary: "Take a resource out of the registry.",
	Effect:  commands.Write,
	Action:  "resource:remove",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"resource_id":"device_001"}`,
}

// ResourceParams are the params of commands about one resource.
type ResourceParams struct {
	ResourceID protocol.ResourceID `json:"resource_id" doc:"the resource"`
	Space      protocol.SpaceID    `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p ResourceParams) Target() commands.Resource {
	return commands.Resource{Type: "resource", ID: string(p.ResourceID), Space: p.Space}
}

// RemoveResource removes a resource. The revision it returns is the last one
// there was.
func (s *Service) RemoveResource(ctx context.Context, call *commands.Call, p ResourceParams) (ResourceResult, error) {
	r, revision, err := s.resource(call, p)
	if err != nil {
		return ResourceResult{}, err
	}
	if !mayManage(call.Principal, r.Owner) {
		return ResourceResult{}, notYours("resource", p.ResourceID)
	}
	if err := s.opts.Resources.Delete(ctx, tableKey(r.Space, r.ID), 0); err != nil {
		return ResourceResult{}, err
	}
	return ResourceResult{p.ResourceID, revision}, nil
}

// resource looks up a resource that the caller may see.
func (s *Service) resource(call *commands.Call, p ResourceParams) (*ResourceRecord, uint64, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return nil, 0, notFound("resource", p.ResourceID)
	}
	r, revision, ok := s.opts.Resources.Get(tableKey(space, p.ResourceID))
	if !ok {
		return nil, 0, s.missing(call.Principal, p.Space, "resource", string(p.ResourceID), resourceOf(p.ResourceID))
	}
	return r, revision, nil
}
