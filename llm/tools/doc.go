// Package tools defines the tools of language models: their declaration and discovery,
// the reading of the arguments that a model writes, and the execution of calls.
//
// Arguments are read leniently and passed on strictly: a value with a plain meaning is
// coerced to the declared type with a warning, any other is returned to the model as an
// error that it can read and correct. See [Declaration.Parse] and docs/tools.md.
//
// A [Tool] acts as the principal of its [Environment], by the router like every caller;
// a model has no rights of its own.
package tools
