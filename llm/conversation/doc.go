// Package conversation stores conversations with models. llm.chat continues a
// conversation, with the tools that its model may use, and answers slash commands of
// the user without a model.
//
// A conversation belongs to its principal. It is stored after every message, as whole
// turns: the user's message, the answers of the model, and every call of a tool with
// its result. The oldest turns are deleted first, so that the messages for a model
// always begin with one of the user.
package conversation
