// Package cluster maintains the membership of the bridges that share a NATS and a root:
// the living ones, and the oldest of them.
//
// A bridge that runs is a [Node]: the id of the bridge and an epoch that is new at
// every start. Each node has a record in one stream and renews it. A node that is
// silent for too long is declared dead by any member that notices, with one
// compare-and-set on its record: the verdict. It binds every bridge, the node itself
// first of all. docs/decisions/0013 has the reasons.
//
// [Join] makes this process a node. [Membership] has the state of the others.
package cluster
