// Package diskspace watches how much room is left on the disks that hold a
// bridge's data, and says when so little is left that nothing new may be
// stored.
//
// A bridge that writes until its disk is full loses more than what it could
// not write: its store has to be opened anew. So it keeps a reserve, which is
// for work that goes on: changes and removals of existing things, claims, the audit
// trail.
package diskspace
