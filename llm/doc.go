// Package llm holds the commands llm.query, llm.advanced-query, llm.status,
// llm.models, llm.spend and llm.budget.list. Its layers, each built on those before it:
//
//   - chat, the vocabulary: messages, answers, events
//   - wire, the protocols of the providers
//   - model, the requests to providers: catalogue, budgets, breakers, cache
//   - tools and approval: the tools of models, and the approvals of their calls
//   - parked: the records of calls that wait for an approval
//   - loop, the rounds of a model that uses tools
//   - the commands: here, in session (llm.chat) and in run (llm.run.*)
package llm
