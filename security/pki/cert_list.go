package pki

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var certList = commands.Spec{
	Name:    "cert.list",
	Summary: "List the certificates of a space, or the requests for some.",
	Effect:  commands.Read,
	Action:  "cert:list",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"authority":"operator","status":"valid","expires_within_days":30}`,
}

// ListParams are the params of cert.list.
type ListParams struct {
	Of        string           `json:"of,omitempty" enum:"certificates,requests" default:"certificates" doc:"things to list"`
	Authority Authority        `json:"authority,omitempty" enum:"operator,appstore,enterprise" doc:"only of this one"`
	Status    string           `json:"status,omitempty" enum:"valid,expired,revoked,not_yet_valid,pending,approved,rejected,issued" doc:"only these; the last four are of requests"`
	Skill     protocol.SkillID `json:"skill_id,omitempty" doc:"only for this skill"`
	Principal string           `json:"principal,omitempty" len:"1-64" doc:"only of this holder"`
	Within    int              `json:"expires_within_days,omitempty" range:"1-3650" doc:"only certificates that end that soon"`
	Space     protocol.SpaceID `json:"space_id,omitempty" doc:"of this space, the caller's own by default"`
	Limit     int              `json:"limit,omitempty" range:"1-1000" default:"100" doc:"number to return at most"`
	Cursor    string           `json:"cursor,omitempty" len:"1-64" doc:"next_cursor of the page before"`
}

// Target implements [commands.Targeter].
func (p ListParams) Target() commands.Resource {
	return commands.Resource{Type: "certificate", Space: p.Space}
}

// Validate checks the rules that the fields' tags cannot express.
func (p ListParams) Validate() error {
	ofRequests := slices.Contains([]string{string(Pending), string(Approved), string(Rejected), string(Issued)}, p.Status)
	if p.Status != "" && ofRequests != (p.Of == "requests") {
		return protocol.InvalidParam("status", "is not one of "+cmp.Or(p.Of, "certificates"))
	}
	return nil
}

// ListResult is the result of cert.list.
type ListResult struct {
	Certificates []View        `json:"certificates,omitempty" doc:"by serial"`
	Requests     []RequestView `json:"requests,omitempty" doc:"by id"`
	Total        int           `json:"total" doc:"on all pages"`
	NextCursor   string        `json:"next_cursor,omitempty" doc:"for the next page, if there is one"`
}

// List lists certificates or requests.
func (s *Service) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return ListResult{}, err
	}
	var result ListResult
	if p.Of == "requests" {
		all := s.requests(space, p)
		result.Total = len(all)
		result.Requests, result.NextCursor = page(all, p, func(v RequestView) string { return v.RequestID })
		return result, nil
	}
	all := s.certificates(space, p)
	result.Total = len(all)
	result.Certificates, result.NextCursor = page(all, p, func(v View) string { return string(v.Serial) })
	return result, nil
}

func (s *Service) certificates(space protocol.SpaceID, p ListParams) (list []View) {
	now := s.opts.Now()
	for _, e := range s.index.all() {
		switch {
		case e.scope.Space != space,
			p.Authority != "" && e.Authority != p.Authority,
			p.Skill != "" && e.scope.Skill != p.Skill,
			p.Principal != "" && e.scope.ID != p.Principal,
			p.Status != "" && string(e.status(now)) != p.Status,
			p.Within > 0 && (now.After(e.notAfter) || e.notAfter.Sub(now) > time.Duration(p.Within)*day):
			continue
		}
		list = append(list, e.view(now))
	}
	return list
}

func (s *Service) requests(space protocol.SpaceID, p ListParams) (list []RequestView) {
	for _, r := range s.opts.Requests.All() {
		switch {
		case r.Scope.Space != space,
			p.Authority != "" && r.Authority != p.Authority,
			p.Skill != "" && r.Scope.Skill != p.Skill,
			p.Principal != "" && r.Scope.ID != p.Principal,
			p.Status != "" && string(r.State) != p.Status:
			continue
		}
		list = append(list, r.view())
	}
	return list
}

// page sorts a list by key and cuts out the page that was asked for.
func page[T any](all []T, p ListParams, key func(T) string) (list []T, next string) {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	from, found := slices.BinarySearchFunc(all, p.Cursor, func(v T, cursor string) int { return cmp.Compare(key(v), cursor) })
	if found {
		from++ // the cursor is the last of the page before
	}
	list = all[from:]
	if most := cmp.Or(p.Limit, 100); len(list) > most {
		list = list[:most]
		next = key(list[most-1])
	}
	return list, next
}
