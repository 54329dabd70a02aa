package registry

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var resourceGet = commands.Spec{
	Name:    "resource.get",
	Summary: "Show a resource.",
	Effect:  commands.Read,
	Action:  "resource:get",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"resource_id":"device_001"}`,
}

// GetResourceResult is the result of resource.get.
type GetResourceResult struct {
	Resource ResourceView `json:"resource" doc:"the resource"`
}

// A ResourceView is a resource as callers see it.
type ResourceView struct {
	ResourceSummary
	Description string          `json:"description,omitempty" doc:"description for people; absent if the owner gave none"`
	Properties  json.RawMessage `json:"properties,omitempty" doc:"further properties as the owner gave them, a JSON object of at most 16 KiB; absent if it gave none"`
	Owner       string          `json:"owner" doc:"id of the principal that registered the resource"`
	Revision    uint64          `json:"revision" doc:"number of the stored version; rises with every change"`
	UpdatedAt   int64           `json:"updated_at" doc:"time of the last change, Unix milliseconds"`
}

// GetResource shows one resource.
func (s *Service) GetResource(_ context.Context, call *commands.Call, p ResourceParams) (GetResourceResult, error) {
	r, revision, err := s.resource(call, p)
	if err != nil {
		return GetResourceResult{}, err
	}
	return GetResourceResult{ResourceView{
		ResourceSummary: ResourceSummary{r.ID, r.Name, r.Type, r.Space, r.Status},
		Description:     r.Description,
		Properties:      r.Properties,
		Owner:           r.Owner.ID,
		Revision:        revision,
		UpdatedAt:       r.UpdatedAt,
	}}, nil
}
