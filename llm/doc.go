// Package llm holds the commands llm.query, llm.advanced-query, llm.status,
// llm.models, llm.spend and llm.budget.list. Its layers, each built on those before it:
//
//   - chat, the vocabulary: messages, answers, events
//   - wire, the protocols of the providers
//   - model, which asks: catalogue, budgets, breakers, cache
//   - tools and approval: what models may call, and who agrees to it
//   - parked: calls that wait for that, as records
//   - loop, which has a model use tools
//   - the commands: here, in session (llm.chat) and in run (llm.run.*)
package llm
