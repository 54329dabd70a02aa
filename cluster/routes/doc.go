// Package routes finds the bridges of a cluster with subscribers for a topic.
//
// A bridge counts the subscriptions of its own clients in an [Announcer], and sends
// [Batch]es of changes to the others: only for the first and the last subscriber of a
// filter. The others keep these announcements in a [Table], in which they look up the
// destinations of a publication.
//
// A filter without wildcards travels as eight bytes, its hash under the cluster's
// [Key], and is kept in an open-addressed table. Two filters with one hash cause
// superfluous messages, but never lose one: the receiving bridge matches the topic
// itself. Filters with wildcards travel and are kept as they are.
//
// A filter belongs to a space. Filters of principals that receive messages of every
// space are in [EverySpace] as well as in their own.
package routes
