package model

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// BudgetView is the use of a budget by one of its owners.
type BudgetView struct {
	Per      string           `json:"per" enum:"principal,key,space" doc:"unit that has a budget of its own"`
	Space    protocol.SpaceID `json:"space_id" doc:"space of the owner"`
	Owner    string           `json:"owner" doc:"owner: id of a principal, of an API key, or of the space"`
	Kind     protocol.Kind    `json:"owner_kind,omitempty" doc:"kind of the principal or of the key's owner; absent for a space"`
	Window   string           `json:"window" enum:"hour,day,month" doc:"time after which it begins anew, in UTC"`
	Since    int64            `json:"since" doc:"time at which the window began, Unix milliseconds"`
	ResetsAt int64            `json:"resets_at" doc:"time at which it begins anew, Unix milliseconds"`
	Limits   []BudgetLimit    `json:"limits" doc:"bounded amount; once it is used up, requests are refused with 4014"`
	Percent  float64          `json:"percent" doc:"share of the nearest limit that is used up"`
}

// A BudgetLimit is one limit of a budget.
type BudgetLimit struct {
	Of       string  `json:"of" enum:"tokens,cost,requests" doc:"bounded amount; cost in the currency of the prices"`
	Limit    float64 `json:"limit" doc:"most that may be spent in a window"`
	Spent    float64 `json:"spent" doc:"amount spent in this one, at all bridges of a cluster"`
	Here     float64 `json:"spent_here,omitempty" doc:"part of it that the answering bridge has spent; absent for 0 and without a cluster"`
	Reserved float64 `json:"reserved" doc:"amount reserved for queries under way, and held by bridges of a cluster and by sites for further queries"`
	Left     float64 `json:"left" doc:"remainder for other queries"`
}

// Budgets lists the budgets that bound a principal and, in spaces that it manages,
// those of every owner with spending. The budgets used up most come first.
func (s *Service) Budgets(who *protocol.Principal) []BudgetView { return s.budgets.list(who) }

func (t *treasury) list(who *protocol.Principal) []BudgetView {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := []BudgetView{}
	for _, b := range t.over(who) {
		if own, bound := b.bounds(who); bound && !t.known(b.key(own)) {
			list = append(list, t.view(b, own, &purse{key: b.key(own)}))
		}
	}
	for key, p := range t.all() {
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

// all yields the purses of all owners, by key.
func (t *treasury) all() iter.Seq2[string, *purse] {
	return func(yield func(string, *purse) bool) {
		for key, p := range t.purses {
			if !yield(key, p) {
				return
			}
		}
		if t.bridges == nil {
			return
		}
		for key := range t.table.All() { // owners that spend at other bridges alone have no purse here
			if t.purses[key] == nil && !yield(key, &purse{key: key}) {
				return
			}
		}
	}
}

// known reports whether there is a purse of a key.
func (t *treasury) known(key string) bool {
	if t.purses[key] != nil || t.bridges == nil {
		return t.purses[key] != nil
	}
	_, _, ok := t.table.Get(key)
	return ok
}

// view is the view of a budget of one of its owners.
func (t *treasury) view(b Budget, owner purseOwner, p *purse) BudgetView {
	from, to := b.window(t.now())
	if t.bridges != nil {
		from, to = t.running(p.key, from, to)
	}
	spent, here, reserved := t.account(p, from, to)
	v := BudgetView{
		Per: b.Per, Space: owner.Space, Owner: owner.name(), Kind: owner.Kind, Window: b.Window,
		Since: from.UnixMilli(), ResetsAt: to.UnixMilli(), Limits: []BudgetLimit{}, Percent: b.percent(spent),
	}
	add := func(of string, limit, spent, here, reserved float64) {
		if limit > 0 {
			v.Limits = append(v.Limits, BudgetLimit{Of: of, Limit: limit, Spent: spent, Here: here, Reserved: reserved, Left: max(0, limit-spent-reserved)})
		}
	}
	add("tokens", float64(b.Tokens), float64(spent.Tokens), float64(here.Tokens), float64(reserved.Tokens))
	add("cost", b.Cost, spent.Cost, here.Cost, reserved.Cost)
	add("requests", float64(b.Requests), float64(spent.Requests), float64(here.Requests), float64(reserved.Requests))
	return v
}

// account returns the spending of a purse in a window, the part of it by this bridge in
// a cluster, and the reserved amount: by queries, or held by bridges or sites.
func (t *treasury) account(p *purse, from, to time.Time) (spent, here, reserved Quantity) {
	reserved = Quantity{Tokens: p.reserved, Cost: p.promised}
	held := Quantity{}
	if p.From.Equal(from) {
		spent, held = p.Quantity, p.held
	}
	if t.bridges == nil {
		if p.From.Equal(from) {
			spent, reserved = p.used(""), reserved.plus(p.lent())
		}
		return spent, here, reserved
	}
	own := spent
	others := t.record(p.key).during(from, to)
	spent = others.used(t.self()).plus(own)
	reserved = reserved.atLeast(held.minus(own)).plus(others.taken(t.self()).minus(others.used(t.self())))
	return spent, own, reserved
}

// A purseOwner is the owner of a purse: a principal, one of its keys, or a space.
type purseOwner struct {
	protocol.Party        // of a space, only Space
	Key            string // id of the API key
}

// name is the id of the owner.
func (o purseOwner) name() string { return cmp.Or(o.Key, o.ID, string(o.Space)) }

func (o purseOwner) String() string {
	switch {
	case o.ID == "":
		return string(o.Space)
	case o.Key != "":
		return o.Party.String() + "#" + o.Key
	}
	return o.Party.String()
}

// key is the key of an owner's purse and its record.
func (b *Budget) key(o purseOwner) string { return b.Per + "/" + o.String() + "/" + b.Window }

// ownerOf is the owner of a purse, if the budget counts the purse.
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

// covers reports whether a budget applies to an owner that is not a space.
func (b *Budget) covers(o purseOwner) bool {
	if b.Of == "" || b.Per == perKey && b.Of == o.Key {
		return true
	}
	var of protocol.Party
	return of.UnmarshalText([]byte(b.Of)) == nil && of.Includes(o.Party)
}

// A BudgetAlert is the event of a budget that reaches a degree of use.
type BudgetAlert struct {
	Per      string
	Space    protocol.SpaceID
	Owner    string
	Window   string
	Percent  int // 50, 80 or 100
	ResetsAt int64
}

// alertsAt are the degrees of use with an alert, in percent.
var alertsAt = []int{100, 80, 50}

// alerts returns the new alerts of a purse's spending. told is the percentage of the
// last one in its window.
func (t *treasury) alerts(key string, spent Quantity, told *int) []BudgetAlert {
	var alerts []BudgetAlert
	for _, b := range t.overPurse(key) {
		owner, ok := b.ownerOf(key)
		if !ok || b.Window == perMinute { // a rate has no alerts
			continue
		}
		percent := b.percent(spent)
		i := slices.IndexFunc(alertsAt, func(degree int) bool { return percent >= float64(degree) })
		if i < 0 || alertsAt[i] <= *told {
			continue
		}
		*told = alertsAt[i]
		_, ends := b.window(t.now())
		alerts = append(alerts, BudgetAlert{Per: b.Per, Space: owner.Space, Owner: owner.name(), Window: b.Window, Percent: *told, ResetsAt: ends.UnixMilli()})
	}
	return alerts
}

// percent is the used part of the nearest limit.
func (b *Budget) percent(spent Quantity) (percent float64) {
	for _, of := range []struct{ spent, limit float64 }{
		{float64(spent.Tokens), float64(b.Tokens)}, {spent.Cost, b.Cost}, {float64(spent.Requests), float64(b.Requests)},
	} {
		if of.limit > 0 {
			percent = max(percent, 100*of.spent/of.limit)
		}
	}
	return percent
}
