package fair

// A Room is a capacity of things and of their bytes, of which principals and spaces
// have shares. Its user counts what takes it, and serialises the calls.
type Room struct{ things, bytes pool }

// NewRoom returns an empty room.
func NewRoom(things, bytes int64) *Room { return &Room{newPool(things), newPool(bytes)} }

// Lacks is the share that has no room for more of a party: its own, its space's or that
// of all.
func (r *Room) Lacks(who Party, things, bytes int64) Whose {
	if whose := r.things.lacks(who, things); whose != OfNobody {
		return whose
	}
	return r.bytes.lacks(who, bytes)
}

// Add counts more of a party, or less. A party has to be as privileged when it is counted
// less as it was before.
func (r *Room) Add(who Party, things, bytes int64) {
	r.things.add(who, things)
	r.bytes.add(who, bytes)
}
