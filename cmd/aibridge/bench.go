package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/bench"
)

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this bridge side by side with other brokers",
		Long: `Measure on this machine, with brokers as processes of their own, in turn and
several times. Ratios are to the first broker of the list; mosquitto is measured
where it is installed. docs/benchmarks.md says how to read the figures.`,
	}
	cmd.AddCommand(benchMQTTCommand(), benchInvokeCommand(), benchServeCommand())
	return cmd
}

func benchMQTTCommand() *cobra.Command {
	var peers, scenarios []string
	var external map[string]string
	var o bench.Options
	cmd := &cobra.Command{
		Use:   "mqtt",
		Short: "Compare brokers: rate, latency, processor time, memory",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Scenarios, err = bench.Pick(scenarios...); err != nil {
				return usageError{err}
			}
			if o.Peers, err = benchPeers(peers); err != nil {
				return err
			}
			for name, line := range external {
				peer, err := bench.External(name, line)
				if err != nil {
					return usageError{err}
				}
				o.Peers = append(o.Peers, peer)
			}
			o.Progress = progressTo(cmd)
			report, err := bench.MQTT(cmd.Context(), o)
			if writeErr := report.WriteTable(cmd.OutOrStdout()); err == nil {
				err = writeErr
			}
			return err
		},
	}
	cmd.Flags().StringSliceVar(&peers, "peers", []string{"mosquitto", bench.KindBroker, bench.KindMochi, bench.KindNATS}, "brokers to measure, the one to compare with first")
	cmd.Flags().StringToStringVar(&external, "external", nil, "another broker: NAME=COMMAND LINE with {address} or {port} and {dir}")
	cmd.Flags().StringSliceVar(&scenarios, "scenarios", nil, "what to measure, fan-in* for all that begin so; everything by default")
	cmd.Flags().IntVar(&o.Rounds, "rounds", 3, "how often everything is measured")
	cmd.Flags().DurationVar(&o.Duration, "duration", 3*time.Second, "of each run")
	cmd.Flags().Float64Var(&o.Quiet, "quiet", 0, "wait until others keep less than this many processors busy, and repeat runs they disturbed")
	return cmd
}

func benchInvokeCommand() *cobra.Command {
	var peers []string
	var o bench.InvokeOptions
	cmd := &cobra.Command{
		Use:   "invoke",
		Short: "Compare skill.invoke with bare request and reply through other brokers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			o.Bridge = []string{self, "serve"}
			if o.Bare, err = benchPeers(peers); err != nil {
				return err
			}
			o.Progress = progressTo(cmd)
			report, err := bench.Invoke(cmd.Context(), o)
			if writeErr := report.WriteTable(cmd.OutOrStdout()); err == nil {
				err = writeErr
			}
			return err
		},
	}
	cmd.Flags().StringSliceVar(&peers, "peers", []string{"mosquitto", bench.KindMochi}, "brokers for bare request and reply, the one to compare with first")
	cmd.Flags().BoolVar(&o.AuditOff, "audit-off", true, "measure the bridge without its audit trail too")
	cmd.Flags().BoolVar(&o.SyncAlways, "sync-always", true, "measure the bridge with --sync always too")
	cmd.Flags().IntSliceVar(&o.Windows, "windows", []int{1, 16}, "calls open at a time")
	cmd.Flags().IntSliceVar(&o.Callers, "callers", []int{50, 1}, "clients that call the one agent")
	cmd.Flags().IntVar(&o.Rounds, "rounds", 3, "how often everything is measured")
	cmd.Flags().DurationVar(&o.Duration, "duration", 3*time.Second, "of each run")
	cmd.Flags().Float64Var(&o.Quiet, "quiet", 0, "wait until others keep less than this many processors busy, and repeat runs they disturbed")
	return cmd
}

// benchServeCommand is what the load generator starts this program as.
func benchServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "serve KIND ADDRESS DIR",
		Short:  "Serve one of the linked brokers, for the load generator",
		Hidden: true,
		Args:   exactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.Serve(cmd.Context(), args[0], args[1], args[2])
		},
	}
}

// benchPeers are the brokers with the names. mosquitto is left out where it
// is not installed.
func benchPeers(names []string) ([]bench.Peer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var peers []bench.Peer
	for _, name := range names {
		if name != "mosquitto" {
			peers = append(peers, bench.Hosted(name, self, "bench", "serve"))
		} else if mosquitto, ok := bench.Mosquitto(); ok {
			peers = append(peers, mosquitto)
		}
	}
	return peers, nil
}

func progressTo(cmd *cobra.Command) func(string) {
	return func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
}
