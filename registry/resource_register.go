package registry

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var resourceRegister = commands.Spec{
	Name:    "resource.register",
	Summary: "Register a resource, or change it.",
	Effect:  commands.Write,
	Action:  "resource:register",
	Errors:  []protocol.Code{protocol.AlreadyExists},
	Example: `{"resource":{"resource_id":"device_001","name":"Boiler","type":"device","properties":{"floor":-1}}}`,
}

// RegisterResourceParams are the params of resource.register.
type RegisterResourceParams struct {
	Resource Resource         `json:"resource" doc:"kind"`
	Space    protocol.SpaceID `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p RegisterResourceParams) Target() commands.Resource {
	return commands.Resource{Type: "resource", ID: string(p.Resource.ID), Space: p.Space}
}

// ResourceResult is the result of resource.register and resource.remove.
type ResourceResult struct {
	ResourceID protocol.ResourceID `json:"resource_id" doc:"id of the resource"`
	Revision   uint64              `json:"revision" doc:"number of the stored version, of a removed resource the last one; the one before if nothing changed"`
}

// RegisterResource stores a resource. Its owner may change it; for others the id is
// taken.
func (s *Service) RegisterResource(ctx context.Context, call *commands.Call, p RegisterResourceParams) (ResourceResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return ResourceResult{}, err
	}
	_, revision, err := records.Change(ctx, s.opts.Resources, tableKey(space, p.Resource.ID), func(old *ResourceRecord, _ uint64) (*ResourceRecord, error) {
		now := time.Now().UnixMilli()
		if old == nil {
			return &ResourceRecord{Resource: p.Resource, Space: space, Owner: call.Principal.Party(), UpdatedAt: now}, nil
		}
		if !mayManage(call.Principal, old.Owner) {
			return nil, protocol.Errorf(protocol.AlreadyExists, "resource %q was registered by somebody else", old.ID).
				With("resource_id", string(old.ID))
		}
		r := *old
		r.Resource = p.Resource
		if !records.Same(&r, old) {
			r.UpdatedAt = now
		}
		return &r, nil
	})
	return ResourceResult{p.Resource.ID, revision}, err
}
