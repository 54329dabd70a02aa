package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/bench/drill"
)

func drainCommand() *cobra.Command {
	var d drilling
	var clients int
	var window time.Duration
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Have one of three bridges end, and count what became of its clients",
		Long: `Start NATS servers and three bridges that all work, as processes on a loopback
address, connect clients to one of them, half of them with kept sessions, and have
another one tell it to end, as "aibridge cluster drain" does, while messages for the kept
sessions are published there. Each client goes where it is told to. Reported are how long
that took, how the clients came back, and what was lost. The exit code is 1 if a kept
session or an acknowledged message was.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.drain(cmd, clients, window) },
	}
	flags := cmd.Flags()
	flags.StringVar(&d.program, "bridge", "", "the aibridge program (otherwise the one beside this program, then the one on the PATH)")
	flags.BoolVar(&d.options.Formed, "formed", false, "the bridges form their cluster: there are no NATS servers but those in them")
	flags.StringArrayVar(&d.options.Flags, "serve-flag", nil, "a further flag of every bridge, such as --log-level=debug; {n} is its number")
	flags.IntVar(&clients, "clients", 10_000, "clients of the bridge that ends; each takes a descriptor here and there (ulimit -n)")
	flags.DurationVar(&window, "window", 5*time.Second, "over which the bridge sends them away, in whole seconds")
	flags.DurationVar(&d.options.Patience, "patience", 2*time.Minute, "how long to wait for what does not come")
	flags.StringVar(&d.json, "json", "", "file for the report as JSON")
	flags.StringVar(&d.keep, "keep", "", "new folder for data and logs, which are kept")
	return cmd
}

func (d *drilling) drain(cmd *cobra.Command, clients int, window time.Duration) error {
	if err := d.complete(); err != nil {
		return err
	}
	if d.keep == "" {
		defer os.RemoveAll(d.options.Dir)
	}
	d.options.Progress = progressTo(cmd)
	report, err := drill.Drain(cmd.Context(), d.options, clients, window)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(cmd.OutOrStdout(), report); err != nil {
		return err
	}
	if d.json != "" {
		data, _ := json.MarshalIndent(report, "", "  ") // numbers
		if err := os.WriteFile(d.json, append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	if report.Kept < report.Keep || report.Lost > 0 {
		return fmt.Errorf("%d sessions and %d messages were lost", report.Keep-report.Kept, report.Lost)
	}
	return nil
}
