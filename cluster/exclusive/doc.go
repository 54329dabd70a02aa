// Package exclusive decides which session of a cluster has an exclusive subscription,
// one to $exclusive/TOPIC: no other session has one to that topic.
//
// A record in the registry names the session. It is written by compare-and-set before
// the session gets the subscription, and deleted after the session has lost it, so that
// two sessions never have one topic. The record also names the process to which the
// session's client was connected last. It is valid as long as that process lives. The
// record of a session that is kept is valid as long as the session exists, on whichever
// bridge: it stays valid while the session moves, and while another bridge serves it
// because its own has died. A record becomes invalid only when a session that is not
// kept ends with its bridge; the next session that wants the topic replaces it.
package exclusive
