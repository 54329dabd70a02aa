// Package loop lets a model use tools: it asks, runs the tools that the model
// calls, tells it the results, and asks again, until an answer calls none or a
// limit is reached.
//
// [Drive] is that loop for everybody. Its [Hooks] are what differs: a [Runner]
// answers llm.query and llm.chat with them, package run keeps a diary of llm.run.*
// by them.
//
// Every call gets exactly one tool message, in the order of the calls and right
// behind the answer that made them, whatever happens: a call that was not run has the
// result Skipped. What the loop itself has to say to the model comes behind
// them. So a conversation is whole after every step and can be gone on with.
package loop
