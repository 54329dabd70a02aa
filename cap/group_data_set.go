package cap

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var dataSet = commands.Spec{
	Name:    "group.data.set",
	Summary: "Set a value that the members of a group share.",
	Effect:  commands.Write,
	Action:  "group:data.set",
	Errors: []protocol.Code{
		protocol.NotFound, protocol.PermissionDenied, protocol.PayloadTooLarge,
		protocol.LimitReached, protocol.InvalidState, protocol.RevisionConflict,
	},
	Example: `{"group_id":"upstairs","data_key":"temperature","data_value":21.5,"data_type":"number","cap_id":"climate"}`,
}

// DataSetParams are the params of group.data.set.
type DataSetParams struct {
	Group    protocol.GroupID `json:"group_id" doc:"the group"`
	Key      protocol.DataKey `json:"data_key" doc:"name of the value in the group"`
	Value    json.RawMessage  `json:"data_value" doc:"the value, at most 64 KiB as JSON"`
	Type     DataType         `json:"data_type" enum:"string,number,integer,float,boolean,object,array,json,binary" doc:"type of the value; json is any but null, binary a string in standard base64"`
	Cap      protocol.CapID   `json:"cap_id" doc:"the Cap the group belongs to"`
	Revision *uint64          `json:"revision,omitempty" doc:"the revision the value must have, 0 for a key that holds none; else 3003"`
}

// Target implements [commands.Targeter].
func (p DataSetParams) Target() commands.Resource {
	return commands.Resource{Type: "group", ID: string(p.Cap) + "/" + string(p.Group)}
}

// DataSetResult is the result of group.data.set.
type DataSetResult struct {
	Group    protocol.GroupID `json:"group_id" doc:"id of the group"`
	Key      protocol.DataKey `json:"data_key" doc:"name of the value, unique in the group"`
	Value    json.RawMessage  `json:"data_value" doc:"the value as it is stored now"`
	Type     DataType         `json:"data_type" doc:"type of the value, as in the request"`
	Cap      protocol.CapID   `json:"cap_id" doc:"id of the Cap that the group belongs to"`
	Revision uint64           `json:"revision" doc:"number of the version just written; give it as revision to write only if nobody else has"`
}

// SetData sets a value by one write of one record. If the caller gives a
// revision, the value must have it. The owner of the Cap and members may set
// data.
func (s *Service) SetData(ctx context.Context, call *commands.Call, p DataSetParams) (DataSetResult, error) {
	if err := p.Type.check(p.Value); err != nil {
		return DataSetResult{}, err
	}
	defer s.locks.share(capKey(call.Principal.Home(), p.Cap))()
	c, err := s.findActive(call, p.Cap)
	if err != nil {
		return DataSetResult{}, err
	}
	g, _, err := s.findGroup(c, p.Group)
	if err != nil {
		return DataSetResult{}, err
	}
	if !s.takesPart(call.Principal, c, g) {
		return DataSetResult{}, notMember(c, p.Group)
	}
	d := &Datum{Space: c.Space, Cap: c.ID, Group: g.ID, Key: p.Key, Type: p.Type, Value: p.Value,
		UpdatedAt: s.opts.Now().UnixMilli(), UpdatedBy: call.SenderID}
	revision, err := s.store(ctx, d, p.Revision)
	if err != nil {
		return DataSetResult{}, err
	}
	return DataSetResult{p.Group, p.Key, p.Value, p.Type, p.Cap, revision}, nil
}

// store writes a value in place of the one with the expected revision, any if
// that is nil.
func (s *Service) store(ctx context.Context, d *Datum, expect *uint64) (uint64, error) {
	_, held, there := s.opts.Data.Get(d.key())
	if !there && s.index.dataCount(d.Space, d.Cap, d.Group) >= maxKeys {
		return 0, protocol.Errorf(protocol.LimitReached, "group %q has %d values already", d.Group, maxKeys).With("limit", maxKeys)
	}
	switch {
	case expect == nil:
		return s.opts.Data.Put(ctx, d.key(), d)
	case *expect != held:
		return 0, conflict("the value", *expect, held)
	case *expect == 0:
		revision, err := s.opts.Data.Create(ctx, d.key(), d)
		return revision, s.lost(err, d, *expect)
	}
	revision, err := s.opts.Data.Update(ctx, d.key(), d, *expect)
	return revision, s.lost(err, d, *expect)
}

// lost turns a lost race into the conflict that the caller is to see.
func (s *Service) lost(err error, d *Datum, expect uint64) error {
	if !records.Raced(err) {
		return err
	}
	_, held, _ := s.opts.Data.Get(d.key())
	return conflict("the value", expect, held)
}
