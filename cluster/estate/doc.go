// Package estate assigns the kept sessions of a bridge that has ended to a living one.
//
// The estate of a bridge is its journal, with the sessions in it. A record of the
// registry names the process that holds it. A bridge takes its own before it loads its
// journal. When a holder is dead, one of the living bridges takes the estate by
// compare-and-set; bridges that agree on the living ones agree on that one. It serves
// the sessions from the journal where it is, under the name of the dead bridge: nothing
// is copied. It gives the estate back when the bridge itself has returned.
package estate
