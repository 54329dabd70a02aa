package cap

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
)

var dataList = commands.Spec{
	Name:    "group.data.list",
	Summary: "List the values that the members of a group share, and what they were since the bridge started.",
	Effect:  commands.Read,
	Action:  "group:data.list",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"group_id":"upstairs","cap_id":"climate","history":true}`,
}

// DataListParams are the params of group.data.list.
type DataListParams struct {
	Group   protocol.GroupID `json:"group_id" doc:"the group"`
	Cap     protocol.CapID   `json:"cap_id" doc:"the Cap the group belongs to"`
	Find    string           `json:"find,omitempty" len:"1-128" doc:"only values with this text in their name or their writer, whatever its case"`
	History bool             `json:"history,omitempty" doc:"values too"`
	Sort    string           `json:"sort,omitempty" enum:"id,-id,updated_at,-updated_at,updated_by,-updated_by" doc:"field to sort by, the highest first behind a minus; by name if absent"`
	listing.Page
}

// Target implements [commands.Targeter].
func (p DataListParams) Target() commands.Resource {
	return commands.Resource{Type: "group", ID: string(p.Cap) + "/" + string(p.Group)}
}

// DataListResult is one page of values.
type DataListResult struct {
	Values     []ValueView `json:"values" doc:"the values of this page; empty if none fits"`
	Total      int         `json:"total" doc:"number on all pages"`
	NextCursor string      `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// A ValueView is a value in a list.
type ValueView struct {
	DataView
	Size      int             `json:"size" doc:"bytes of the value as JSON"`
	Value     json.RawMessage `json:"data_value,omitempty" doc:"the value; absent if it has more than 1 KiB: group.data.get has it"`
	UpdatedBy string          `json:"updated_by" doc:"sender of the request that set it"`
	History   []Change        `json:"history,omitempty" doc:"values, the oldest first and the present one last: the latest 64, as far as the bridge remembers; absent if it was not replaced since the bridge started"`
}

// A heldDatum is a value with its revision.
type heldDatum struct {
	*Datum
	revision uint64
}

// dataOrder holds the columns that lists of values can be sorted by.
var dataOrder = listing.Order[heldDatum]{
	ID: func(d heldDatum) string { return string(d.Key) },
	Keys: map[string]func(heldDatum) listing.Key{
		"updated_at": func(d heldDatum) listing.Key { return listing.Number(d.UpdatedAt) },
		"updated_by": func(d heldDatum) listing.Key { return listing.Text(d.UpdatedBy) },
	},
}

// ListData lists the values of a group to the owner of the Cap and to members,
// as GetData does.
func (s *Service) ListData(_ context.Context, call *commands.Call, p DataListParams) (DataListResult, error) {
	c, _, err := s.find(call, p.Cap)
	if err != nil {
		return DataListResult{}, err
	}
	g, _, err := s.findGroup(c, p.Group)
	if err != nil {
		return DataListResult{}, err
	}
	if !s.takesPart(call.Principal, c, g) {
		return DataListResult{}, notMember(c, p.Group)
	}
	named := listing.Find(p.Find)
	found, err := dataOrder.Select(func(yield func(heldDatum) bool) {
		for _, key := range s.index.dataOf(c.Space, c.ID, g.ID) {
			d, revision, ok := s.opts.Data.Get(dataKey(c.Space, c.ID, g.ID, key))
			if ok && named.In(string(key), d.UpdatedBy) && !yield(heldDatum{d, revision}) {
				return
			}
		}
	}, p.Sort, p.Page)
	if err != nil {
		return DataListResult{}, err
	}
	result := DataListResult{Values: make([]ValueView, len(found.Items)), Total: found.Total, NextCursor: found.Next}
	for i, d := range found.Items {
		result.Values[i] = s.listed(d, p.History)
	}
	return result, nil
}

func (s *Service) listed(d heldDatum, history bool) ValueView {
	v := ValueView{DataView: DataView{d.Key, d.Type, d.revision, d.UpdatedAt}, Size: len(d.Value), UpdatedBy: d.UpdatedBy}
	if len(d.Value) <= maxPast {
		v.Value = d.Value
	}
	if history {
		v.History = s.past.of(d.ref())
	}
	return v
}
