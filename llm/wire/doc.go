// Package wire is what the adapters of all providers share: one HTTP exchange
// with its errors and bounds, tool names that fit, text that arrives in
// pieces, and arguments that may not be JSON.
package wire
