// Package cap keeps Caps, the channels skills live on, with their groups:
// members, the links between them and the data they share
// (docs/protocol.md#groups).
//
// A group is named by its Cap and its own id. It is born with its first member
// and ends, with its links and data, with its last. For a caller the Caps of
// other spaces do not exist.
//
// Every change is one atomic write. Its consequences - events on the Cap's
// event topic, the retained last value of data, rights on the channel - are
// derived from the changes in the store, in their order, so they are the same
// after a restart.
package cap
