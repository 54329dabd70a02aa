// Package tools lets language models call things: it holds what a tool is, how
// it is declared and found, how the arguments that a model writes are read,
// and how calls are run.
//
// Arguments are read leniently and passed on strictly: what a model plainly
// meant is brought to the declared type with a warning, anything else comes
// back to it as a result that it can read and correct. See [Declaration.Parse]
// and docs/tools.md.
//
// A [Tool] does whatever it does as the principal of its [Environment], by the
// router like everybody; a model has no rights of its own.
package tools
