package run

import (
	"cmp"
	"context"
	"slices"

	"github.com/aibridge/aibridge/commands"
)

var packages = commands.Spec{
	Name:    "llm.run.packages",
	Summary: "List the workflow packages of the caller's space.",
	Effect:  commands.Read,
	Action:  "llm:read",
	Example: `{"name":"climate-check"}`,
}

// PackagesParams are the params of llm.run.packages.
type PackagesParams struct {
	Name   string `json:"name,omitempty" len:"1-200" doc:"only versions of this package"`
	Limit  int    `json:"limit,omitempty" range:"1-1000" default:"100" doc:"number at most"`
	Cursor string `json:"cursor,omitempty" len:"1-400" doc:"next_cursor of the page before"`
}

// PackagesResult is one page of packages.
type PackagesResult struct {
	Packages   []PackageResult `json:"packages" doc:"by name and version"`
	Total      int             `json:"total" doc:"number on all pages"`
	NextCursor string          `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// Packages lists the packages that can be run.
func (s *Service) Packages(_ context.Context, call *commands.Call, p PackagesParams) (PackagesResult, error) {
	var all []*PackageRecord
	for _, r := range s.opts.Packages.All() {
		if r.Space == call.Principal.Home() && (p.Name == "" || p.Name == r.Name) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *PackageRecord) int { return cmp.Compare(reference(a), reference(b)) })
	result := PackagesResult{Packages: []PackageResult{}, Total: len(all)}
	for _, r := range all {
		if p.Cursor != "" && reference(r) <= p.Cursor {
			continue
		}
		if len(result.Packages) == cmp.Or(p.Limit, 100) {
			last := result.Packages[len(result.Packages)-1]
			result.NextCursor = last.Name + "@" + last.Version
			break
		}
		result.Packages = append(result.Packages, r.result())
	}
	return result, nil
}

// reference is the name of a package with its version, name@version.
func reference(r *PackageRecord) string { return r.Name + "@" + r.Version }
