package security

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var keyList = commands.Spec{
	Name:    "key.list",
	Summary: "List the API keys of a space, without their secrets.",
	Effect:  commands.Read,
	Action:  "key:list",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"principal_id":"lamp-1"}`,
}

// KeyListParams are the params of key.list.
type KeyListParams struct {
	Space     protocol.SpaceID `json:"space_id,omitempty" doc:"the keys' space, the caller's own by default"`
	Principal protocol.AgentID `json:"principal_id,omitempty" doc:"only keys of this principal"`
	State     KeyState         `json:"state,omitempty" enum:"live,expired,revoked" doc:"only keys in this state"`
	Limit     int              `json:"limit,omitempty" range:"1-1000" default:"100" doc:"number to return at most"`
	Cursor    string           `json:"cursor,omitempty" len:"1-64" doc:"next_cursor of the page before"`
}

// Target implements [commands.Targeter].
func (p KeyListParams) Target() commands.Resource {
	return commands.Resource{Type: "key", Space: p.Space}
}

// KeyListResult is the result of key.list.
type KeyListResult struct {
	Keys       []KeyView `json:"keys" doc:"the keys of this page, by id; empty if none fits"`
	Total      int       `json:"total" doc:"number on all pages"`
	NextCursor string    `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// List shows the keys of a space by id.
func (s *KeyService) List(_ context.Context, call *commands.Call, p KeyListParams) (KeyListResult, error) {
	space, err := spaceFor(call, p.Space)
	if err != nil {
		return KeyListResult{}, err
	}
	result := KeyListResult{Keys: []KeyView{}}
	var left []*Key // of this page and those that follow
	for _, key := range s.keys.All() {
		if key.Space != space || p.Principal != "" && key.Principal != string(p.Principal) || p.State != "" && s.state(key) != p.State {
			continue
		}
		result.Total++
		if key.ID > p.Cursor {
			left = append(left, key)
		}
	}
	slices.SortFunc(left, func(a, b *Key) int { return strings.Compare(a.ID, b.ID) })
	if limit := cmp.Or(p.Limit, 100); len(left) > limit {
		left = left[:limit]
		result.NextCursor = left[limit-1].ID
	}
	for _, key := range left {
		result.Keys = append(result.Keys, s.view(key))
	}
	return result, nil
}
