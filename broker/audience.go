package broker

import "github.com/aibridge/aibridge/protocol"

// An audience is the recipients of a message in few bytes: nearly all messages are for
// everybody in a space. The zero value is nobody.
type audience struct {
	space  protocol.SpaceID     // that all of are meant, "" where others has them
	others *protocol.Recipients // which do not change, nil for a space and for nobody
}

// administrators are the audience of what belongs to no space.
var administrators = func() audience { r := protocol.Administrators(); return audienceOf(&r) }()

// everybody is the audience that consists of a space.
func everybody(in protocol.SpaceID) audience { return audience{space: in} }

// audienceOf refers to recipients, which must not change while it is used.
func audienceOf(r *protocol.Recipients) audience {
	if space := r.Space(); space != "" || r.Nobody() {
		return everybody(space)
	}
	return audience{others: r}
}

// nobody reports whether it has no recipient.
func (a audience) nobody() bool { return a == audience{} }

// has reports whether a principal belongs to it.
func (a audience) has(who *protocol.Party) bool {
	if a.others != nil {
		return a.others.Has(who)
	}
	return a.space != "" && a.space == who.Space
}

// hasUnbounded reports whether the principals that may do everything in every space
// belong to it, whatever their own space.
func (a audience) hasUnbounded() bool {
	if a.others != nil {
		return a.others.HasUnbounded()
	}
	return a.space != ""
}

// parties are those it consists of, the same twice if it is one. It is not ok for
// a space and for administrators.
func (a audience) parties() (parties [2]protocol.Party, ok bool) {
	if a.others != nil {
		return a.others.Parties()
	}
	return parties, false
}
