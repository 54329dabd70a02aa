package app

import "github.com/aibridge/aibridge/commands"

// WithExtensions adds extensions of the router: parsers, permission checks,
// message processors and an error handler (docs/protocol.md#extensions).
// Extensions in other processes register with command.register.
func WithExtensions(e commands.Extensions) Option { return func(a *App) { a.extensions = e } }

// WithCommands adds commands beside the bridge's own.
func WithCommands(c ...commands.Command) Option {
	return func(a *App) { a.commands = append(a.commands, c...) }
}
