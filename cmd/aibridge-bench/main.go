// Command aibridge-bench is the load generator: it measures the bridge side by side
// with other brokers. It is a program of its own because it has rivals linked into
// it, which have no business in the bridge.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	err := root().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "aibridge-bench:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "aibridge-bench",
		Short:         "Measure the bridge side by side with other brokers, or break several on purpose",
		SilenceErrors: true,
		SilenceUsage:  true,
		Long: `Measure on this machine, with brokers as processes of their own, in turn and
several times. Ratios are to the first broker of the list; mosquitto is measured
where it is installed. docs/benchmarks.md says how to read the figures.

Once it is beside aibridge, or on the PATH, aibridge bench runs it.`,
	}
	cmd.AddCommand(mqttCommand(), invokeCommand(), relayCommand(), goalsCommand(), guardCommand(), serveCommand(), drillCommand(), drainCommand(), drillNATSCommand())
	return cmd
}
