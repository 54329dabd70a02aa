// Package bridge is the bridge for programs that embed it: the same as the
// aibridge binary runs, with commands and extensions of one's own.
//
//	config := bridge.DefaultConfig()
//	config.Data = "/var/lib/greenhouse"
//	b, err := bridge.New(ctx, config, bridge.WithCommands(water), bridge.WithExtensions(rules))
//	if err != nil {
//		return err
//	}
//	return b.Run(ctx)
//
// The directory examples/own-bridge of the repository is a whole program. The
// package is a thin front: what a bridge consists of stays internal, so that it
// can change. Exported are the packages that a command or an extension is made of,
// commands and protocol, and the SDK, client (docs/decisions/0010-public-packages.md).
package bridge

import (
	"context"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/listen"
)

// Config has every setting of docs/operations.md at the same place: the setting
// limits.payload is Config.Limits.Payload.
type Config = app.Config

// Addresses are the addresses that a bridge listens on, as host:port.
type Addresses = listen.Addresses

// DefaultConfig is the configuration of a bridge that was told nothing: doors on
// loopback, an embedded NATS server, nobody let in without a key.
func DefaultConfig() Config { return app.DefaultConfig() }

// LoadConfig reads a configuration as "aibridge serve" does: the defaults, then the
// YAML file, unless path is empty, then the AIBRIDGE_* variables. The error names
// every setting that is wrong.
func LoadConfig(path string) (Config, error) {
	flags := pflag.NewFlagSet("bridge", pflag.ContinueOnError)
	flags.String("config", path, "")
	return app.LoadConfig(flags)
}

// An Option changes how [New] builds a bridge.
type Option func() app.Option

// WithLogger replaces the logger that the configuration asks for.
func WithLogger(log *slog.Logger) Option {
	return func() app.Option { return app.WithLogger(log) }
}

// WithVersion says which version of the program this is, for the log and for
// bridge.describe. Without it, it is "dev".
func WithVersion(version string) Option {
	return func() app.Option { return app.WithVersion(version) }
}

// WithCommands adds commands beside the bridge's own. Every door serves them, policy
// decides on their actions, and bridge.describe, the documents and the tools of
// models show them. [New] reports what is wrong with a declaration, and a name that
// is taken.
func WithCommands(c ...commands.Command) Option {
	return func() app.Option { return app.WithCommands(c...) }
}

// WithExtensions adds extensions of the router
// (docs/protocol.md#extensions): parsers of other request forms, permission checks
// after policy, processors around every handler, a handler of every error. Given
// twice, the second replaces the first.
func WithExtensions(e commands.Extensions) Option {
	return func() app.Option { return app.WithExtensions(e) }
}

// A Bridge is one bridge.
type Bridge struct{ app *app.App }

// New acquires everything a bridge needs: its data, its state, its listeners. When
// it returns, the addresses are known and clients may connect; they are served once
// [Bridge.Run] runs. A second bridge on the same data waits in New until the first
// has ended.
//
// The error says which setting is wrong, or what could not be had: a folder, an
// address, the NATS servers. A bridge that was made must be run, if only with a
// context that has ended, to give back what it holds.
func New(ctx context.Context, config Config, options ...Option) (*Bridge, error) {
	var all []app.Option
	for _, option := range options {
		all = append(all, option())
	}
	a, err := app.New(ctx, config, all...)
	if err != nil {
		return nil, err
	}
	return &Bridge{a}, nil
}

// Addresses are the addresses that the bridge listens on; ports that were 0 are
// those that the system chose.
func (b *Bridge) Addresses() Addresses { return b.app.Addresses() }

// Run serves until ctx ends, and returns when everything is stopped: first the
// listeners, then the calls in flight, which have Config.Drain seconds, then the
// state. The error is nil after an orderly stop.
func (b *Bridge) Run(ctx context.Context) error { return b.app.Run(ctx) }
