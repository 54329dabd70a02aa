package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/config"
)

func serveCommand() *cobra.Command {
	var printConfig bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a bridge",
		Long: `Run a bridge: broker, router and state in one process.

Settings come from defaults, then --config FILE, then AIBRIDGE_* variables,
then flags. Port 0 lets the system choose; what was chosen is in the first log
line and in DIR/addresses.json.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := app.LoadConfig(cmd.Flags())
			if err != nil {
				return usageError{err}
			}
			if printConfig {
				return config.WriteYAML(cmd.OutOrStdout())
			}
			keepPrivate()
			bridge, err := app.New(cmd.Context(), config, app.WithVersion(version))
			if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return nil // it was ended while it waited
			}
			if err != nil {
				return startError(err)
			}
			if config.Dev {
				writeWelcome(cmd.ErrOrStderr(), bridge.Addresses())
			}
			return bridge.Run(cmd.Context())
		},
	}
	config.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "show the configuration that would be used, without secrets, and exit")
	return cmd
}

// startError is the reason why a bridge did not start.
func startError(err error) error {
	err = fmt.Errorf("start: %w", err)
	if errors.Is(err, syscall.EADDRINUSE) {
		return hinted{err, "another program listens there, perhaps another bridge; port 0, as in --mqtt 127.0.0.1:0, lets the system choose one"}
	}
	return err
}
