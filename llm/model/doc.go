// Package model asks language models. It chooses a provider, keeps to budgets, repeats
// elsewhere a query that failed here before its first word, and says so where no provider
// can answer. With no provider configured nothing pretends to be a model (4010).
//
// It is the lowest layer of the models: it knows no tools, no conversations and
// no commands. Those are above it, see package llm.
package model
