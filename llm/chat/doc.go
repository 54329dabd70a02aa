// Package chat is the language that everything about language models speaks
// here, whatever a provider calls the same things: messages made of ordered
// segments go in, a stream of events comes out, and a buffered answer is the
// fold of that stream.
package chat
