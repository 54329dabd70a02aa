// Package routes knows which bridges of a cluster have subscribers for a topic.
//
// A bridge counts what its own clients subscribe to in an [Announcer], and
// tells the others by [Batch]es of changes: only the first and the last
// subscriber of a filter travel. The others keep what they are told in a
// [Table] and look up there to whom a publication has to go.
//
// A filter without wildcards travels as eight bytes, its hash under the
// cluster's [Key], and is kept in an open-addressed table. Two filters of one
// hash cost a message that nobody wants; they never cost one that somebody
// does: whoever gets it looks at the topic itself. Filters with wildcards
// travel and are kept as they are.
//
// A filter belongs to a space. Principals who hear every space have theirs in
// [EverySpace] beside their own.
package routes
