// Package exclusive decides which session of a cluster has a topic alone: a
// subscription to $exclusive/TOPIC.
//
// A record in the registry names the session. It is written by compare-and-set before
// the session gets the subscription, and deleted after it has lost it, so that two
// never have one topic. It names the process, too, that the session's client was
// connected to last. It counts as long as that process lives or, if the session is
// kept, as long as it exists, wherever that is: it goes along with a session that
// moves, and with one whose bridge has died. Only a session that ended with its bridge
// leaves a record that does not count, and whoever wants the topic next replaces it.
package exclusive
