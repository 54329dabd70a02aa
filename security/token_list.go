package security

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var tokenList = commands.Spec{
	Name:    "token.list",
	Summary: "List which tokens of issuers are revoked, until they would have expired.",
	Effect:  commands.Read,
	Action:  "token:list",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"principal_id":"staff.alice"}`,
}

// TokenListParams are the params of token.list.
type TokenListParams struct {
	Space     protocol.SpaceID `json:"space_id,omitempty" doc:"the tokens' space, the caller's own by default; what is revoked in all is listed, too"`
	Principal protocol.AgentID `json:"principal_id,omitempty" doc:"only what is about all tokens of this principal"`
	Limit     int              `json:"limit,omitempty" range:"1-1000" default:"100" doc:"number to return at most"`
	Cursor    string           `json:"cursor,omitempty" len:"1-64" doc:"next_cursor of the page before"`
}

// Target implements [commands.Targeter].
func (p TokenListParams) Target() commands.Resource {
	return commands.Resource{Type: "token", Space: p.Space}
}

// TokenListResult is the result of token.list.
type TokenListResult struct {
	Revoked    []RevocationView `json:"revoked" doc:"the revocations of this page, by id; empty if none fits"`
	Total      int              `json:"total" doc:"number on all pages"`
	NextCursor string           `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// List shows the revocations by id.
func (s *TokenService) List(_ context.Context, call *commands.Call, p TokenListParams) (TokenListResult, error) {
	space, err := spaceFor(call, p.Space)
	if err != nil {
		return TokenListResult{}, err
	}
	result := TokenListResult{Revoked: []RevocationView{}}
	var left []*Revocation // of this page and those that follow
	for _, r := range s.Revocations.All() {
		if r.Space != space && (r.Space != "" || !call.Principal.Unbounded()) || p.Principal != "" && r.Principal != string(p.Principal) {
			continue
		}
		result.Total++
		if r.ID > p.Cursor {
			left = append(left, r)
		}
	}
	slices.SortFunc(left, func(a, b *Revocation) int { return strings.Compare(a.ID, b.ID) })
	if limit := cmp.Or(p.Limit, 100); len(left) > limit {
		left = left[:limit]
		result.NextCursor = left[limit-1].ID
	}
	for _, r := range left {
		result.Revoked = append(result.Revoked, s.viewOf(r))
	}
	return result, nil
}
