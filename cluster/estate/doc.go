// Package estate decides who serves the kept sessions of a bridge that has ended.
//
// What a bridge leaves is its estate: its journal, with the sessions in it. A
// record of the registry says which process has it. A bridge takes its own before
// it loads its journal. When a holder is dead, one of the living bridges, the same
// for all who agree on who lives, takes the estate by compare-and-set, and serves
// the sessions from where they are, under the name of the dead bridge: nothing is
// copied. It gives the estate back when the bridge itself has returned.
package estate
