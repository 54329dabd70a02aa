// Package model sends questions to language models. It chooses a provider, enforces
// budgets, and repeats a query at another provider if one fails before the first event.
// Its error is 4010 if no provider can answer or none is configured.
//
// It is the lowest layer of the models, without tools, conversations or commands. Those
// are above it, see package llm.
package model
