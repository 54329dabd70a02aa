package model

import (
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
)

// The dimensions of spending.
const (
	BySpace     = "space"
	ByPrincipal = "principal"
	ByModel     = "model"
	ByProvider  = "provider"
	BySkill     = "skill"
	ByRun       = "run"
	ByDay       = "day"
	ByBridge    = "bridge"
)

// A SpendingQuery selects and groups spending.
type SpendingQuery struct {
	Since, Until string // days, both included; "" for all kept ones
	By           []string
	Principal    string // id; "" for all, as the next
	Model        string
	Provider     string
	Skill        protocol.SkillID
	Run          string
	Sort         string
	listing.Page
}

// A SpendingRow is the spending of one group of a query's dimensions. The fields of
// other dimensions are "".
type SpendingRow struct {
	Day       string           `json:"day,omitempty" doc:"day in UTC, as 2026-11-22"`
	Space     protocol.SpaceID `json:"space_id,omitempty" doc:"space of the principal"`
	Principal string           `json:"principal,omitempty" doc:"id of the principal; (others) for the sum of further ones"`
	Kind      protocol.Kind    `json:"principal_kind,omitempty" doc:"kind of the principal"`
	Model     string           `json:"model,omitempty" doc:"the model, as callers name it"`
	Provider  string           `json:"provider,omitempty" doc:"the provider; absent for answers without a cost"`
	Skill     protocol.SkillID `json:"skill_id,omitempty" doc:"the skill on whose behalf the question was asked; absent for none"`
	Run       string           `json:"run_id,omitempty" doc:"the run that asked; absent for none"`
	Bridge    string           `json:"bridge_id,omitempty" doc:"the asking bridge of a cluster; absent without a cluster, and for spending recorded by versions without this field; (others) for the 129th on"`
	Amounts
}

// SpendingResult is one page of spending.
type SpendingResult struct {
	Rows       []SpendingRow `json:"rows" doc:"amounts by the dimensions of by"`
	Sum        Amounts       `json:"sum" doc:"all rows of all pages together"`
	Total      int           `json:"total" doc:"number of rows on all pages"`
	NextCursor string        `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
	Kept       string        `json:"kept_since" doc:"the first day that is kept"`
}

// spendingOrder holds the columns that spending can be sorted by.
var spendingOrder = listing.Order[*SpendingRow]{
	ID: (*SpendingRow).id,
	Keys: map[string]func(*SpendingRow) listing.Key{
		"day":       func(r *SpendingRow) listing.Key { return listing.Text(r.Day) },
		"principal": func(r *SpendingRow) listing.Key { return listing.Text(r.Principal) },
		"model":     func(r *SpendingRow) listing.Key { return listing.Text(r.Model) },
		"provider":  func(r *SpendingRow) listing.Key { return listing.Text(r.Provider) },
		"requests":  func(r *SpendingRow) listing.Key { return listing.Number(r.Requests) },
		"tokens":    func(r *SpendingRow) listing.Key { return listing.Number(r.Tokens) },
		"cost":      func(r *SpendingRow) listing.Key { return listing.Number(int64(r.Cost * 1e9)) },
	},
	Default: "-cost",
}

// id is the unique key of a row.
func (r *SpendingRow) id() string {
	return strings.Join([]string{r.Day, string(r.Space), string(r.Kind), r.Principal, r.Model, r.Provider, string(r.Skill), r.Run, r.Bridge}, "\x00")
}

// Spending returns the spending of a principal, and in the spaces that it manages that
// of all principals. It excludes all other spending, also from the sums.
func (s *Service) Spending(who *protocol.Principal, q SpendingQuery) (SpendingResult, error) {
	rows := make(map[string]*SpendingRow)
	result := SpendingResult{Rows: []SpendingRow{}, Kept: s.ledger.oldest()}
	for _, p := range s.ledger.all() {
		if !q.matches(p) || p.Principal != who.Party() && !who.Manages(p.Principal.Space) {
			continue
		}
		add := func(bridge string, a *Amounts) {
			row := q.rowOf(&p.Payment)
			row.Bridge = bridge
			id := row.id()
			if rows[id] == nil {
				rows[id] = &row
			}
			rows[id].add(a)
		}
		if slices.Contains(q.By, ByBridge) {
			p.byBridge(add)
		} else {
			add("", &p.Amounts)
		}
		result.Sum.add(&p.Amounts)
	}
	all := func(yield func(*SpendingRow) bool) {
		for _, r := range rows {
			if !yield(r) {
				return
			}
		}
	}
	found, err := spendingOrder.Select(all, q.Sort, q.Page)
	if err != nil {
		return SpendingResult{}, err
	}
	for _, r := range found.Items {
		result.Rows = append(result.Rows, *r)
	}
	result.Total, result.NextCursor = found.Total, found.Next
	return result, nil
}

// byBridge passes the parts of a line to add, by bridge.
func (s *Spending) byBridge(add func(bridge string, a *Amounts)) {
	rest := s.Amounts
	for bridge, a := range s.Bridges {
		add(bridge, &a)
		rest.subtract(&a)
	}
	if rest.Requests > 0 || rest.Repeated > 0 {
		add("", &rest)
	}
}

func (q *SpendingQuery) matches(p *Spending) bool {
	return (q.Since == "" || p.Day >= q.Since) && (q.Until == "" || p.Day <= q.Until) &&
		(q.Principal == "" || p.Principal.ID == q.Principal) && (q.Model == "" || p.Model == q.Model) &&
		(q.Provider == "" || p.Provider == q.Provider) && (q.Skill == "" || p.Skill == q.Skill) && (q.Run == "" || p.Run == q.Run)
}

// rowOf is the row of a payment, without amounts.
func (q *SpendingQuery) rowOf(p *Payment) (r SpendingRow) {
	by := func(dimension string) bool { return slices.Contains(q.By, dimension) }
	if by(ByDay) {
		r.Day = p.Day
	}
	if by(BySpace) {
		r.Space = p.Principal.Space
	}
	if by(ByPrincipal) {
		r.Space, r.Kind, r.Principal = p.Principal.Space, p.Principal.Kind, p.Principal.ID
	}
	if by(ByModel) {
		r.Model = p.Model
	}
	if by(ByProvider) {
		r.Provider = p.Provider
	}
	if by(BySkill) {
		r.Skill = p.Skill
	}
	if by(ByRun) {
		r.Run = p.Run
	}
	return r
}
