package mirror

// A base is the last state that both ends agreed on.
type base struct {
	known   bool
	deleted bool // that there is no file
	version uint64
	size    int64
	sum     Sum
	at      int64 // the clock's time of the agreement
}

// holds reports whether the agreement was on a file.
func (b base) holds() bool { return b.known && !b.deleted }

// A local is the folder's side of a path.
type local struct {
	there   bool
	size    int64
	sum     Sum
	summed  bool  // sum is known; else the file is surely none of those in question
	changed int64 // the clock's time of the last change
}

// is reports whether the file has the content.
func (l local) is(sum Sum) bool { return l.there && l.summed && l.sum == sum }

// A remote is the VFS's side of a path.
type remote struct {
	there     bool
	tombstone bool
	File
}

func remoteOf(f File) remote {
	return remote{there: !f.Deleted, tombstone: f.Deleted, File: f}
}

// An action makes both ends the same.
type action uint8

const (
	nothing     action = iota
	agree              // they are the same already: note it
	push               // folder to VFS
	pull               // VFS to folder
	deleteThere        // in the VFS
	deleteHere         // in the folder
	collide            // both changed
	forget             // neither has it any more
)

var actions = [...]string{"nothing", "agree", "push", "pull", "delete there", "delete here", "conflict", "forget"}

func (a action) String() string { return actions[a] }

// decide compares the files of both ends with the agreed one.
//
// A VFS that does not have a file any more without a tombstone, or only in an
// older version than was agreed on, has lost it: no deletion follows from
// that.
func decide(b base, l local, r remote) action {
	lost := b.known && (r.Version < b.version || contradicts(b, r.File))
	switch {
	case !l.there && !r.there:
		return decideGone(b, r)
	case l.there && r.there:
		if l.is(r.SHA256) {
			if b.holds() && b.version == r.Version && b.sum == r.SHA256 {
				return nothing
			}
			return agree
		}
		return decideDiffering(b, l, r, lost)
	case l.there:
		deleted := b.holds() && r.tombstone && !lost && b.version > 0
		if !deleted {
			return push
		}
		if l.is(b.sum) {
			return deleteHere
		}
		return collide
	}
	return decideMissingHere(b, r, lost)
}

// contradicts reports that the VFS has another content under the version that
// was agreed on: it has begun anew.
func contradicts(b base, f File) bool {
	return b.holds() && f.Version == b.version && !f.Deleted && f.SHA256 != b.sum
}

// decideGone decides for a path at which neither end has a file.
func decideGone(b base, r remote) action {
	switch {
	case !b.known:
		return nothing
	case !r.tombstone:
		return forget // the tombstone has expired, or is lost
	case b.deleted && b.version == r.Version:
		return nothing
	}
	return agree
}

// decideDiffering decides for different files at both ends.
func decideDiffering(b base, l local, r remote, lost bool) action {
	if !b.holds() || lost || b.version == 0 {
		if b.holds() && b.sum == r.SHA256 {
			return push // it went back to the agreed version
		}
		return collide
	}
	switch {
	case r.SHA256 == b.sum:
		return push
	case l.is(b.sum):
		return pull
	}
	return collide
}

// decideMissingHere decides for a file that only the VFS has.
func decideMissingHere(b base, r remote, lost bool) action {
	switch {
	case !b.known:
		return pull
	case b.version == 0: // agreed on with a VFS that was another one
		if b.holds() && r.SHA256 == b.sum {
			return deleteThere
		}
		return pull
	case b.deleted:
		if r.Version == b.version {
			return deleteThere // cannot be, unless the VFS is confused
		}
		return pull
	case r.SHA256 == b.sum:
		return deleteThere
	case lost:
		return pull
	}
	return collide
}
