package run

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
)

var list = commands.Spec{
	Name:    "llm.run.list",
	Summary: "List runs, the latest first.",
	Effect:  commands.Read,
	Action:  "llm:read",
	Example: `{"phase":"WaitingUser"}`,
}

// ListParams are the params of llm.run.list.
type ListParams struct {
	Phase     Phase  `json:"phase,omitempty" enum:"Running,WaitingUser,WaitingApproval,Completed,Failed" doc:"only runs in this phase"`
	Mode      Mode   `json:"mode,omitempty" enum:"run,agent,chat" doc:"only runs of this mode"`
	Package   string `json:"package,omitempty" len:"1-300" doc:"only runs of this package, by its name or name@version"`
	Workflow  string `json:"workflow,omitempty" len:"1-1024" doc:"only runs of this workflow"`
	Principal string `json:"principal,omitempty" len:"1-256" doc:"only runs that this principal started"`
	Find      string `json:"find,omitempty" len:"1-128" doc:"only runs with this text in their id, package, workflow, agent, project, model or trace, regardless of case"`
	Sort      string `json:"sort,omitempty" enum:"id,-id,package,-package,phase,-phase,principal,-principal,turns,-turns,tokens,-tokens,cost,-cost,changed_at,-changed_at" doc:"field to sort by, the highest first behind a minus; the latest first if absent"`
	listing.Page
}

// ListResult is one page of runs.
type ListResult struct {
	Runs       []Result `json:"runs" doc:"the runs, without their last messages"`
	Total      int      `json:"total" doc:"number on all pages"`
	NextCursor string   `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// runOrder holds the columns that lists of runs can be sorted by. Ids rise with
// time.
var runOrder = listing.Order[*Record]{
	ID: func(r *Record) string { return r.ID },
	Keys: map[string]func(*Record) listing.Key{
		"package":    func(r *Record) listing.Key { return listing.Text(r.packageID()) },
		"phase":      func(r *Record) listing.Key { return listing.Text(string(r.Phase)) },
		"principal":  func(r *Record) listing.Key { return listing.Text(r.Owner.ID) },
		"turns":      func(r *Record) listing.Key { return listing.Number(int64(r.Turns)) },
		"tokens":     func(r *Record) listing.Key { return listing.Number(int64(r.Tokens)) },
		"cost":       func(r *Record) listing.Key { return listing.Number(int64(r.Cost * 1e9)) },
		"changed_at": func(r *Record) listing.Key { return listing.Number(r.Changed.UnixMilli()) },
	},
	Default: "-id",
}

// packageID is the package of a run, name@version.
func (r *Record) packageID() string {
	if r.Name == "" {
		return ""
	}
	return r.Name + "@" + r.Version
}

// matches reports whether the params select a run.
func (p *ListParams) matches(r *Record, named listing.Finder) bool {
	switch {
	case p.Phase != "" && r.Phase != p.Phase, p.Mode != "" && r.Mode != p.Mode,
		p.Package != "" && r.Name != p.Package && r.packageID() != p.Package,
		p.Workflow != "" && r.Workflow != p.Workflow, p.Principal != "" && r.Owner.ID != p.Principal:
		return false
	}
	return named.In(r.ID, r.packageID(), r.Workflow, r.Agent, r.Project, r.Model, r.TraceID)
}

// List returns the caller's runs, for managers of a space all of its runs.
func (s *Service) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	named := listing.Find(strings.TrimSpace(p.Find))
	visible := func(yield func(*Record) bool) {
		for id, r := range s.opts.Runs.All() {
			if l := s.find(id); l != nil {
				r = l.now()
			}
			if r.visibleTo(call.Principal) && p.matches(r, named) && !yield(r) {
				return
			}
		}
	}
	found, err := runOrder.Select(visible, p.Sort, p.Page)
	if err != nil {
		return ListResult{}, err
	}
	result := ListResult{Runs: make([]Result, len(found.Items)), Total: found.Total, NextCursor: found.Next}
	for i, r := range found.Items {
		shown := *r
		shown.Last = nil
		result.Runs[i] = s.result(&shown)
	}
	return result, nil
}

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(importPackage, s.Import),
		commands.New(packages, s.Packages),
		commands.New(start, s.Start),
		commands.New(continueRun, s.Continue),
		commands.New(status, s.Status),
		commands.New(turns, s.Turns),
		commands.New(traceRun, s.Trace),
		commands.New(cancel, s.Cancel),
		commands.New(list, s.List),
	}
}
