package run

import (
	"cmp"
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var turns = commands.Spec{
	Name:    "llm.run.turns",
	Summary: "Show what a run's model was asked, what it answered, and what its calls came to.",
	Effect:  commands.Read,
	Action:  "llm:read",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"run_id":"01989d3c-7a4e-7c11-9b52-2f6d1e0a4b7c","after":3}`,
}

// TurnsParams are the params of llm.run.turns.
type TurnsParams struct {
	Run   string `json:"run_id" len:"1-64" doc:"the run"`
	After int    `json:"after,omitempty" range:"0-1000000" doc:"only turns after this one; next_after of the page before"`
	Limit int    `json:"limit,omitempty" range:"1-1000" default:"20" doc:"number at most; fewer if they are long"`
}

// Target implements [commands.Targeter].
func (p TurnsParams) Target() commands.Resource { return commands.Resource{Type: "llm", ID: "run"} }

// TurnsResult is one page of turns.
type TurnsResult struct {
	Turns     []Turn `json:"turns" doc:"in their order"`
	Total     int    `json:"total" doc:"number on all pages"`
	NextAfter int    `json:"next_after,omitempty" doc:"cursor of the next page; absent on the last"`
}

// maxPage is the greatest size of a page of turns, in bytes; a page has at least one
// turn.
const maxPage = 512 << 10

// Turns returns the turns of a run.
func (s *Service) Turns(ctx context.Context, call *commands.Call, p TurnsParams) (TurnsResult, error) {
	r, _, err := s.lookup(call.Principal, p.Run)
	if err != nil {
		return TurnsResult{}, err
	}
	page := &page{after: p.After, limit: cmp.Or(p.Limit, 20), result: TurnsResult{Turns: []Turn{}}}
	all := story{done: page.take}
	if err := readDiary(ctx, s.shelf.peek(ctx, r.ID), "run/"+r.ID, s.opts.Sealer, all.read); err != nil {
		return TurnsResult{}, told(err)
	}
	if n := len(all.turns); n > 0 {
		page.take(n-1, all.turns[n-1])
		page.result.Total = n
	}
	return page.result, nil
}

// A page collects the turns that fit on it, in their order.
type page struct {
	after, limit int
	size         int
	full         bool
	result       TurnsResult
}

func (p *page) take(i int, t *toldTurn) {
	if i < p.after || p.full {
		return
	}
	turn := t.turn()
	n := turn.size()
	if len(p.result.Turns) == p.limit || len(p.result.Turns) > 0 && p.size+n > maxPage {
		p.result.NextAfter, p.full = i, true
		return
	}
	p.size += n
	p.result.Turns = append(p.result.Turns, turn)
}

// size is the approximate size of a turn, in bytes.
func (t *Turn) size() int {
	n := len(t.Response.Assistant)
	for _, m := range t.Request.Messages {
		n += len(m)
	}
	for _, m := range t.Request.Tools {
		n += len(m)
	}
	for _, r := range t.ToolRuns {
		n += len(r.Args) + len(r.Result)
	}
	return n
}
