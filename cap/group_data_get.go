package cap

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var dataGet = commands.Spec{
	Name:    "group.data.get",
	Summary: "Get a value that the members of a group share.",
	Effect:  commands.Read,
	Action:  "group:data.get",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"group_id":"upstairs","data_key":"temperature","cap_id":"climate"}`,
}

// DataGetParams are the params of group.data.get.
type DataGetParams struct {
	Group protocol.GroupID `json:"group_id" doc:"the group"`
	Key   protocol.DataKey `json:"data_key" doc:"name of the value in the group"`
	Cap   protocol.CapID   `json:"cap_id" doc:"the Cap the group belongs to"`
}

// Target implements [commands.Targeter].
func (p DataGetParams) Target() commands.Resource {
	return commands.Resource{Type: "group", ID: string(p.Cap) + "/" + string(p.Group)}
}

// DataGetResult is the result of group.data.get, and the retained message on
// the value's topic.
type DataGetResult struct {
	Group     protocol.GroupID `json:"group_id" doc:"id of the group"`
	Key       protocol.DataKey `json:"data_key" doc:"name of the value, unique in the group"`
	Value     json.RawMessage  `json:"data_value" doc:"the value, JSON of the type that data_type names, at most 64 KiB"`
	Type      DataType         `json:"data_type" doc:"type of the value as its writer declared it; binary is a string in standard base64"`
	Cap       protocol.CapID   `json:"cap_id" doc:"id of the Cap that the group belongs to"`
	Revision  uint64           `json:"revision" doc:"number of this version of the value; rises with every write and is expected by revision of group.data.set"`
	UpdatedAt int64            `json:"updated_at" doc:"Unix milliseconds"`
	UpdatedBy string           `json:"updated_by" doc:"sender of the request that set it"`
}

func (d *Datum) view(revision uint64) DataGetResult {
	return DataGetResult{d.Group, d.Key, d.Value, d.Type, d.Cap, revision, d.UpdatedAt, d.UpdatedBy}
}

// GetData returns a value to the owner of the Cap and to members.
func (s *Service) GetData(_ context.Context, call *commands.Call, p DataGetParams) (DataGetResult, error) {
	c, _, err := s.find(call, p.Cap)
	if err != nil {
		return DataGetResult{}, err
	}
	g, _, err := s.findGroup(c, p.Group)
	if err != nil {
		return DataGetResult{}, err
	}
	if !s.takesPart(call.Principal, c, g) {
		return DataGetResult{}, notMember(c, p.Group)
	}
	d, revision, ok := s.opts.Data.Get(dataKey(c.Space, c.ID, p.Group, p.Key))
	if !ok {
		return DataGetResult{}, protocol.Errorf(protocol.NotFound, "group %q has no value %q", p.Group, p.Key).
			With("group_id", string(p.Group)).With("data_key", string(p.Key))
	}
	return d.view(revision), nil
}
