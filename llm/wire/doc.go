// Package wire is the common part of the adapters of all providers: the HTTP exchange
// with its errors and bounds, the spelling of tool names, text that arrives in pieces,
// and arguments that may not be JSON.
package wire
