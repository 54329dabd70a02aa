package fair

import "github.com/aibridge/aibridge/protocol"

// A Party is a holder of places.
type Party struct {
	Principal string // its id, unique in all spaces
	Space     string // whose share it uses up; "" where all parties are of one space
	// Privileged has the places kept for administrators, too, and as much as a
	// space may have.
	Privileged bool
}

// Of is the party that a principal is.
func Of(who *protocol.Principal) Party {
	p := Party{Principal: who.Party().String(), Space: string(who.Home()), Privileged: who.Unbounded()}
	if p.Privileged { // a principal of all spaces uses no space's share
		p.Space = ""
	}
	return p
}
