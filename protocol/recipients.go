package protocol

// Recipients are the parties that may get a message of the bridge, if they
// subscribe to its topic: topics do not name the space they are about. They
// have to be said: the zero value is nobody.
type Recipients struct {
	reach   reach
	space   SpaceID
	parties [2]Party
}

// A reach is the way in which recipients are named.
type reach byte

const (
	nobody reach = iota
	oneSpace
	someParties
	allSpaces
)

// Everybody are the principals of one space, and those that may do everything in every
// space. Without a space it is nobody.
func Everybody(in SpaceID) Recipients {
	if in == "" {
		return Recipients{}
	}
	return Recipients{reach: oneSpace, space: in}
}

// Only is one party, and nobody else, whatever others may do.
func Only(who Party) Recipients { return Either(who, who) }

// Either are two parties, and nobody else, whatever others may do.
func Either(one, other Party) Recipients {
	if one.ID == "" || other.ID == "" {
		return Recipients{}
	}
	return Recipients{reach: someParties, parties: [2]Party{one, other}}
}

// Administrators are the principals that may do everything in every space, for messages
// that belong to no space.
func Administrators() Recipients { return Recipients{reach: allSpaces} }

// Nobody reports whether no recipient was named.
func (r *Recipients) Nobody() bool { return r.reach == nobody }

// Has reports whether a principal is one of them.
func (r *Recipients) Has(who *Party) bool {
	switch r.reach {
	case oneSpace:
		return r.space == who.Space
	case someParties:
		return r.parties[0].Includes(*who) || r.parties[1].Includes(*who)
	}
	return false
}

// HasUnbounded reports whether the principals that may do everything in every space are
// among the recipients, whatever their own space.
func (r *Recipients) HasUnbounded() bool { return r.reach == oneSpace || r.reach == allSpaces }

// Space is the space that they are everybody of, "" for others.
func (r *Recipients) Space() SpaceID { return r.space }

// Parties are those they consist of, the same twice if it is one. It is not ok
// for others.
func (r *Recipients) Parties() (parties [2]Party, ok bool) {
	return r.parties, r.reach == someParties
}
