// Package llm puts language models behind commands: llm.query,
// llm.advanced-query, llm.status and llm.models. It chooses a provider, keeps
// to budgets, repeats elsewhere what failed here before its first word, and
// says so where nobody can answer. With no provider configured nothing
// pretends to be a model (4010).
package llm
