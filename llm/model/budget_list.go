package model

import (
	"cmp"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// BudgetView is how far a budget is used up by one of those that it bounds.
type BudgetView struct {
	Per      string           `json:"per" enum:"principal,key,space" doc:"what each has a budget of its own"`
	Space    protocol.SpaceID `json:"space_id" doc:"space of who spends it"`
	Owner    string           `json:"owner" doc:"who spends it: id of a principal, of an API key, or of the space"`
	Kind     protocol.Kind    `json:"owner_kind,omitempty" doc:"what the principal is, or the one whose key it is; absent for a space"`
	Window   string           `json:"window" enum:"hour,day,month" doc:"time after which it begins anew, in UTC"`
	Since    int64            `json:"since" doc:"when the window began, Unix milliseconds"`
	ResetsAt int64            `json:"resets_at" doc:"when it begins anew, Unix milliseconds"`
	Limits   []BudgetLimit    `json:"limits" doc:"what is bounded; what is used up first is refused with 4014"`
	Percent  float64          `json:"percent" doc:"how much is used up of the limit that is nearest"`
}

// A BudgetLimit is one limit of a budget.
type BudgetLimit struct {
	Of       string  `json:"of" enum:"tokens,cost,requests" doc:"what is bounded; cost in the currency of the prices"`
	Limit    float64 `json:"limit" doc:"most that may be spent in a window"`
	Spent    float64 `json:"spent" doc:"what was spent in this one"`
	Reserved float64 `json:"reserved" doc:"what queries under way may spend yet"`
	Left     float64 `json:"left" doc:"what is left for other queries"`
}

// Budgets are those that bound a principal, and in spaces that it manages those
// of everybody who has spent something. Those used up most come first.
func (s *Service) Budgets(who *protocol.Principal) []BudgetView { return s.budgets.list(who) }

func (t *treasury) list(who *protocol.Principal) []BudgetView {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := []BudgetView{}
	for _, b := range t.over(who) {
		if own, bound := b.bounds(who); bound && t.purses[b.key(own)] == nil {
			list = append(list, t.view(b, own, &purse{}))
		}
	}
	for key, p := range t.purses {
		for _, b := range t.overPurse(key) {
			own, bound := b.bounds(who)
			owner, ok := b.ownerOf(key)
			if ok && (owner == own && bound || who.Manages(owner.Space)) {
				list = append(list, t.view(b, owner, p))
			}
		}
	}
	slices.SortFunc(list, func(a, b BudgetView) int {
		return cmp.Or(
			cmp.Compare(b.Percent, a.Percent), strings.Compare(a.Per, b.Per), cmp.Compare(a.Space, b.Space), strings.Compare(a.Owner, b.Owner), strings.Compare(a.Window, b.Window),
		)
	})
	return list
}

// view is a budget as one of its owners has it.
func (t *treasury) view(b Budget, owner purseOwner, p *purse) BudgetView {
	now := t.now()
	from, to := b.window(now)
	spent := p.Spent
	if !spent.From.Equal(from) {
		spent = Spent{}
	}
	v := BudgetView{
		Per: b.Per, Space: owner.Space, Owner: cmp.Or(owner.Key, owner.ID, string(owner.Space)), Kind: owner.Kind, Window: b.Window,
		Since: from.UnixMilli(), ResetsAt: to.UnixMilli(), Limits: []BudgetLimit{},
	}
	add := func(of string, limit, spent, reserved float64) {
		if limit <= 0 {
			return
		}
		v.Limits = append(v.Limits, BudgetLimit{Of: of, Limit: limit, Spent: spent, Reserved: reserved, Left: max(0, limit-spent-reserved)})
		v.Percent = max(v.Percent, 100*spent/limit)
	}
	add("tokens", float64(b.Tokens), float64(spent.Tokens), float64(p.reserved))
	add("cost", b.Cost, spent.Cost, p.promised)
	add("requests", float64(b.Requests), float64(spent.Requests), 0)
	return v
}

// A purseOwner is who spends a budget: a principal, one of its keys, or a space.
type purseOwner struct {
	protocol.Party        // of a space, only Space
	Key            string // id of the API key
}

func (o purseOwner) String() string {
	switch {
	case o.ID == "":
		return string(o.Space)
	case o.Key != "":
		return o.Party.String() + "#" + o.Key
	}
	return o.Party.String()
}

// key is where the spending of an owner is kept.
func (b *Budget) key(o purseOwner) string { return b.Per + "/" + o.String() + "/" + b.Window }

// ownerOf is who has a purse, if the purse is of the budget.
func (b *Budget) ownerOf(key string) (o purseOwner, ok bool) {
	text, ok := strings.CutPrefix(key, b.Per+"/")
	if !ok {
		return o, false
	}
	if text, ok = strings.CutSuffix(text, "/"+b.Window); !ok {
		return o, false
	}
	if b.Per == perSpace {
		o.Space = protocol.SpaceID(text)
		return o, b.Of == "" || b.Of == text
	}
	if b.Per == perKey {
		text, o.Key, _ = strings.Cut(text, "#")
	}
	if o.Party.UnmarshalText([]byte(text)) != nil {
		return o, false
	}
	return o, b.covers(o)
}

// covers reports whether a budget is for an owner who is no space.
func (b *Budget) covers(o purseOwner) bool {
	if b.Of == "" || b.Per == perKey && b.Of == o.Key {
		return true
	}
	var of protocol.Party
	return of.UnmarshalText([]byte(b.Of)) == nil && of.Includes(o.Party)
}

// A BudgetAlert says that a budget is used up to a degree.
type BudgetAlert struct {
	Per      string
	Space    protocol.SpaceID
	Owner    string
	Window   string
	Percent  int // 50, 80 or 100
	ResetsAt int64
}

// alertsAt are the degrees that are told of, in percent.
var alertsAt = []int{100, 80, 50}

// alerts are those that a purse gives rise to for the first time in its window.
func (t *treasury) alerts(key string, p *purse) []BudgetAlert {
	var alerts []BudgetAlert
	for _, b := range t.overPurse(key) {
		owner, ok := b.ownerOf(key)
		if !ok || b.Window == perMinute { // a rate is no news
			continue
		}
		v := t.view(b, owner, p)
		i := slices.IndexFunc(alertsAt, func(degree int) bool { return v.Percent >= float64(degree) })
		if i < 0 || alertsAt[i] <= p.Told {
			continue
		}
		p.Told = alertsAt[i]
		alerts = append(alerts, BudgetAlert{Per: v.Per, Space: v.Space, Owner: v.Owner, Window: v.Window, Percent: p.Told, ResetsAt: v.ResetsAt})
	}
	return alerts
}
