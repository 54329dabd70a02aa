// Package conversation keeps conversations with models: llm.chat goes on with one,
// with the tools that it may use, and answers slash commands of the user
// without asking any model.
//
// A conversation is its principal's own. It is stored after every message, as
// whole turns: what a user said, what the model answered, and with every call
// of a tool its result. The oldest turns are forgotten first, so that what a
// model is shown always begins with a user.
package conversation
