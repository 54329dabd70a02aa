package model

import (
	"maps"
	"time"
)

// A Quantity holds the amounts that a budget bounds.
type Quantity struct {
	Tokens   int64   `json:"tokens" range:"0-1000000000000" doc:"tokens of questions and answers"`
	Cost     float64 `json:"cost" range:"0-1000000000" doc:"cost in the currency of the prices"`
	Requests int64   `json:"requests" range:"0-1000000000000" doc:"requests to providers"`
}

func (q Quantity) plus(o Quantity) Quantity {
	return Quantity{q.Tokens + o.Tokens, q.Cost + o.Cost, q.Requests + o.Requests}
}

func (q Quantity) minus(o Quantity) Quantity {
	return Quantity{q.Tokens - o.Tokens, q.Cost - o.Cost, q.Requests - o.Requests}
}

// atLeast is the maximum of each field.
func (q Quantity) atLeast(o Quantity) Quantity {
	return Quantity{max(q.Tokens, o.Tokens), max(q.Cost, o.Cost), max(q.Requests, o.Requests)}
}

// atMost is the minimum of each field.
func (q Quantity) atMost(o Quantity) Quantity {
	return Quantity{min(q.Tokens, o.Tokens), min(q.Cost, o.Cost), min(q.Requests, o.Requests)}
}

// none reports whether no field is positive.
func (q Quantity) none() bool { return q.Tokens <= 0 && q.Cost <= 0 && q.Requests <= 0 }

// Spent is the record of the spending in one window. It is stored, so that a restart
// does not renew budgets.
//
// Each bridge of a cluster has a share in it, which it alone changes, and spends only
// its share. So all bridges together spend no more than the budget, even if one dies.
// The share of a dead bridge counts as spent, since its real spending is unknown.
type Spent struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Quantity is the spending of bridges without a share: a single bridge, and bridges
	// that have ended.
	Quantity
	Told   int              `json:"told,omitempty"`   // percent of the last warning
	Shares map[string]Share `json:"shares,omitempty"` // by process
	Wanted string           `json:"wanted,omitempty"` // process that lacks a part that others hold
	Leases map[string]Lease `json:"leases,omitempty"` // of sites, by their accounts
}

// A Share is the part of a budget that one process may spend in a window.
type Share struct {
	Held Quantity `json:"held"` // including Used
	Used Quantity `json:"used"`
}

// claim is the part of the budget that a share occupies.
func (s Share) claim() Quantity { return s.Held.atLeast(s.Used) }

// during returns a copy of the record for a window; an empty one if the record is of an
// earlier window.
func (s *Spent) during(from, to time.Time) *Spent {
	if s == nil || s.From.Before(from) {
		return &Spent{From: from, To: to}
	}
	return s.clone()
}

// clone returns a deep copy.
func (s *Spent) clone() *Spent {
	c := *s
	c.Shares, c.Leases = maps.Clone(s.Shares), maps.Clone(s.Leases)
	return &c
}

// taken is the quantity spent or reserved, without the share of one process.
func (s *Spent) taken(except string) Quantity {
	sum := s.Quantity
	for _, l := range s.Leases {
		sum = sum.plus(l.claim())
	}
	for owner, share := range s.Shares {
		if owner != except {
			sum = sum.plus(share.claim())
		}
	}
	return sum
}

// used is the quantity spent, without the share of one process.
func (s *Spent) used(except string) Quantity {
	sum := s.Quantity
	for _, l := range s.Leases {
		sum = sum.plus(l.Used)
	}
	for owner, share := range s.Shares {
		if owner != except {
			sum = sum.plus(share.Used)
		}
	}
	return sum
}

// spares reports whether a process other than one holds cost that it has not spent.
func (s *Spent) spares(except string) bool {
	for owner, share := range s.Shares {
		if owner != except && share.Held.Cost > share.Used.Cost {
			return true
		}
	}
	return false
}

// fold ends the shares of processes that have ended.
func (s *Spent) fold(ended func(owner string) bool) {
	for owner, share := range s.Shares {
		if ended(owner) {
			s.Quantity = s.Quantity.plus(share.claim())
			delete(s.Shares, owner)
		}
	}
	if s.Wanted != "" && ended(s.Wanted) {
		s.Wanted = ""
	}
}

// give stores a process's share in the record, or ends it.
func (s *Spent) give(owner string, share Share, ended bool) {
	switch {
	case ended:
		s.Quantity = s.Quantity.plus(share.claim())
		delete(s.Shares, owner)
	case share.Held.none() && share.Used.none():
		delete(s.Shares, owner)
	default:
		if s.Shares == nil {
			s.Shares = make(map[string]Share)
		}
		s.Shares[owner] = share
	}
}

// portion is the divisor of the rest for one extension: small enough that a process
// extends its share seldom, large enough that others find a rest.
const portion = 20

// chunk is the part of the rest that a process takes: at least its lack, preferably its
// wish, and no less than its portion unless another process waits for a part. ok is
// false if the rest does not cover the lack.
func chunk[N int64 | float64](left, lack, wish N, wanted bool) (more N, ok bool) {
	switch {
	case lack <= 0 && wish <= 0:
		return 0, true
	case lack > 0 && left < lack:
		return 0, false
	case wanted:
		wish = lack
	default:
		wish = max(wish, left/portion)
	}
	return max(lack, min(wish, left), 0), true
}
