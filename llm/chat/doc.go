// Package chat is the vocabulary of language models, independent of providers: a
// request has messages of ordered segments, its answer is a stream of events, and a
// whole answer is the fold of that stream.
package chat
