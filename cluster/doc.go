// Package cluster knows which bridges share a NATS and a root, which of them are
// alive, and which of them is the oldest.
//
// A bridge that runs is a [Node]: the id of the bridge and an epoch that is new
// at every start. Each node has a record in one stream and renews it. A node that
// is silent for too long is declared dead by whoever notices, with one
// compare-and-set on its record: the verdict. It binds everybody, the node
// itself first of all. docs/decisions/0013 has the reasons.
//
// [Join] makes this process a node. [Membership] tells about the others.
package cluster
