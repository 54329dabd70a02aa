// Package diskspace watches how much room is left on the disks that hold a
// bridge's data, and reports when too little is left for anything new to be stored.
//
// A bridge that writes until its disk is full loses more than the failed write: its
// store has to be opened anew. So it keeps a reserve, which is for work that goes
// on: changes and removals of existing things, claims, the audit trail.
package diskspace
