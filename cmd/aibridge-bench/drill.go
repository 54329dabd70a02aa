package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/bench/drill"
)

func drillCommand() *cobra.Command {
	var d drilling
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Break a cluster of bridges on purpose, and count what it lost",
		Long: `Start NATS servers and bridges as processes on a loopback address, connect clients
that keep their own books, break one thing after the other, and compare. The report
is Markdown on the standard output. The exit code is 1 if a promise was broken that
--allow does not name. docs/drill.md says how to read it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&d.program, "bridge", "", "the aibridge program (otherwise the one beside this program, then the one on the PATH)")
	flags.StringVar(&d.earlier, "upgrade-from", "", "an aibridge program of another version: the bridges begin with it, and each rolling fault puts the other in its place, up and down again")
	flags.StringVar((*string)(&d.options.Mode), "mode", string(drill.Many), "many: all bridges work; standby: one works and the others wait")
	flags.BoolVar(&d.options.Formed, "formed", false, "the bridges form their cluster: there are no NATS servers but those in them")
	flags.StringArrayVar(&d.options.Flags, "serve-flag", nil, "a further flag of every bridge, such as --log-level=debug; {n} is its number")
	flags.StringSliceVar(&d.faults, "faults", nil, "what is broken; everything by default")
	flags.StringSliceVar(&d.allow, "allow", nil, "promises that may be broken without the drill failing")
	flags.IntVar(&d.options.Laps, "rounds", 1, "how often each fault comes")
	flags.DurationVar(&d.options.Duration, "duration", 0, "begin new laps of all faults until this has passed, instead of --rounds")
	flags.Uint64Var(&d.options.Seed, "seed", 1, "decides the order of faults, their targets and how long they last")
	flags.IntVar(&d.options.Bridges, "bridges", 3, "bridges")
	flags.DurationVar(&d.options.Longest, "longest", 30*time.Second, "longest pause or partition")
	flags.DurationVar(&d.options.Every, "every", 200*time.Millisecond, "between two messages of a publisher")
	flags.DurationVar(&d.options.Patience, "patience", 2*time.Minute, "how long nothing may come before something counts as lost")
	flags.BoolVar(&d.options.Loyal, "loyal", false, "clients with a kept session know one bridge, and wait for its return")
	flags.StringVar(&d.json, "json", "", "file for the report as JSON")
	flags.StringVar(&d.keep, "keep", "", "new folder for data and logs, which are kept (otherwise only those of a drill that failed are)")
	return cmd
}

// A drilling holds the flags of the command.
type drilling struct {
	program, earlier, json, keep string
	faults, allow                []string
	options                      drill.Options
}

func (d *drilling) run(cmd *cobra.Command) (err error) {
	if err := d.complete(); err != nil {
		return err
	}
	defer func() {
		switch {
		case d.keep != "":
		case err == nil:
			_ = os.RemoveAll(d.options.Dir)
		default: // how it came to that is in the logs
			cmd.PrintErrln("data and logs are kept in", d.options.Dir)
		}
	}()
	d.options.Progress = progressTo(cmd)
	report, err := drill.Run(cmd.Context(), d.options)
	if err != nil && len(report.Rounds) == 0 {
		return err
	}
	if writeErr := report.WriteMarkdown(cmd.OutOrStdout()); err == nil {
		err = writeErr
	}
	if d.json != "" {
		data, _ := json.MarshalIndent(report, "", "  ") // numbers and texts
		if writeErr := os.WriteFile(d.json, append(data, '\n'), 0o644); err == nil {
			err = writeErr
		}
	}
	if broken := report.Failures(); len(broken) > 0 && err == nil {
		err = fmt.Errorf("promises were broken: %v", broken)
	}
	return err
}

// complete parses the flags and finds the programs that they name.
func (d *drilling) complete() (err error) {
	if d.options.Faults, err = drill.ParseFaults(d.faults); err != nil {
		return err
	}
	if d.options.Allow, err = drill.ParsePromises(d.allow); err != nil {
		return err
	}
	program, err := bridgeProgram(d.program)
	if err != nil {
		return err
	}
	if program, err = filepath.Abs(program); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	d.options.Bridge, d.options.NATS = []string{program, "serve"}, []string{self, "drill-nats"}
	d.options.Key = []string{program, "cluster", "init"}
	if d.earlier != "" {
		if d.earlier, err = filepath.Abs(d.earlier); err != nil {
			return err
		}
		d.options.Earlier = []string{d.earlier, "serve"}
	}
	if d.keep == "" {
		d.options.Dir, err = os.MkdirTemp("", "aibridge-drill-")
		return err
	}
	if d.options.Dir, err = filepath.Abs(d.keep); err != nil {
		return err
	}
	return os.Mkdir(d.options.Dir, 0o700)
}

// drillNATSCommand is the command with which a drill starts its NATS servers.
func drillNATSCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "drill-nats DEFINITION",
		Short:  "Serve as one of the NATS servers of a drill",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return drill.ServeNATS(cmd.Context(), args[0])
		},
	}
}
