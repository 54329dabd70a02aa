package mirror

import (
	"bytes"
	"fmt"
)

// A Rule decides which side wins when a file was changed at both ends.
type Rule string

// The rules. The copy that loses is kept: the VFS has versions, the folder a
// place for them ([Loser]).
const (
	RemoteWins Rule = "remote_wins"
	LocalWins  Rule = "local_wins"
	LatestWins Rule = "latest_wins" // by logical time; a deletion counts as a change
	KeepBoth   Rule = "keep_both"   // the local copy goes beside the other under a name of its own
)

// Check fails for an unknown rule.
func (r Rule) Check() error {
	switch r {
	case RemoteWins, LocalWins, LatestWins, KeepBoth:
		return nil
	}
	return fmt.Errorf("there is no conflict rule %q", string(r))
}

// localWins decides a conflict. It gives the same answer at every end.
func (r Rule) localWins(l local, other remote) bool {
	switch r {
	case LocalWins:
		return true
	case LatestWins:
		theirs := other.Modified.UnixNano()
		if l.changed != theirs {
			return l.changed > theirs
		}
		return bytes.Compare(l.sum[:], other.SHA256[:]) > 0
	case KeepBoth:
		return !other.there // a change is kept, a deletion is not
	}
	return false
}
