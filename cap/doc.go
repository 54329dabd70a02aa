// Package cap keeps Caps, the channels skills live on, with their groups:
// members, the links between them and the data they share
// (docs/protocol.md#groups).
//
// A group is named by its Cap and its own id. It is born with its first
// member and ends, with its links and data, with its last. What is in another
// space than the caller's does not exist for it.
//
// Every change is one atomic write. What follows from it - events on the Cap's
// event topic, the retained last value of data, who may use the channel - is
// derived from the changes the store shows, in their order, and so is the same
// after a restart.
package cap
