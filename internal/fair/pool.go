package fair

// fewest is the number of places that must be there to be divided. Of fewer than that
// the shares would be so small that most places were never used: they are shared by
// turns alone.
const fewest = 8

// shares are the parts of a capacity that principals and spaces may have.
type shares struct {
	capacity  int64
	principal int64 // of one principal
	space     int64 // of all principals of a space, and of one that is privileged
	ordinary  int64 // of all that are not privileged
}

func sharesOf(capacity int64) shares {
	if capacity < fewest {
		return shares{capacity, capacity, capacity, capacity}
	}
	return shares{capacity: capacity, principal: capacity / 4, space: capacity / 2, ordinary: capacity - max(1, capacity/16)}
}

// Share is the part of a capacity that a party may have, and the part of all of its
// space together, for callers that count use themselves.
func Share(capacity int64, who Party) (own, space int64) {
	s := sharesOf(capacity)
	return s.own(who), s.space
}

// own is the part that a party may have.
func (s *shares) own(p Party) int64 {
	if p.Privileged {
		return s.space
	}
	return s.principal
}

// Whose share is used up.
type Whose string

// They are the values of an error's details.of.
const (
	OfNobody    Whose = "" // there is room
	OfPrincipal Whose = "principal"
	OfSpace     Whose = "space"
	OfBridge    Whose = "bridge" // all of it
)

// A pool counts the use of a capacity by principals and spaces.
type pool struct {
	shares
	used, ordinaryUsed int64
	byPrincipal        map[string]int64
	bySpace            map[string]int64
}

func newPool(capacity int64) pool {
	return pool{shares: sharesOf(capacity), byPrincipal: make(map[string]int64), bySpace: make(map[string]int64)}
}

// lacks is the share that has no room for n more of a party: its own, its space's or that
// of all.
func (p *pool) lacks(who Party, n int64) Whose {
	switch {
	case p.byPrincipal[who.Principal]+n > p.own(who):
		return OfPrincipal
	case who.Space != "" && p.bySpace[who.Space]+n > p.space:
		return OfSpace
	case p.used+n > p.capacity, !who.Privileged && p.ordinaryUsed+n > p.ordinary:
		return OfBridge
	}
	return OfNobody
}

// add counts n more of a party, or fewer.
func (p *pool) add(who Party, n int64) {
	p.used += n
	if !who.Privileged {
		p.ordinaryUsed += n
	}
	count(p.byPrincipal, who.Principal, n)
	if who.Space != "" {
		count(p.bySpace, who.Space, n)
	}
}

func count(of map[string]int64, name string, n int64) {
	if of[name] += n; of[name] == 0 {
		delete(of, name)
	}
}
