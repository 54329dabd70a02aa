package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/bench"
)

func mqttCommand() *cobra.Command {
	var peers, scenarios []string
	var external map[string]string
	var o bench.Options
	cmd := &cobra.Command{
		Use:   "mqtt",
		Short: "Compare brokers: rate, latency, processor time, memory",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Scenarios, err = bench.Pick(scenarios...); err != nil {
				return err
			}
			if o.Peers, err = peersNamed(peers); err != nil {
				return err
			}
			for name, line := range external {
				peer, err := bench.External(name, line)
				if err != nil {
					return err
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

func relayCommand() *cobra.Command {
	var program string
	var o bench.RelayOptions
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Measure what a message between two bridges costs, over NATS and directly",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := bridgeProgram(program)
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
			o.Bridge, o.NATS = []string{program, "serve"}, []string{self, "drill-nats"}
			o.Progress = progressTo(cmd)
			report, err := bench.Relay(cmd.Context(), o)
			if writeErr := report.WriteTable(cmd.OutOrStdout()); err == nil {
				err = writeErr
			}
			return err
		},
	}
	cmd.Flags().StringVar(&program, "bridge", "", "the aibridge program to measure (otherwise the one beside this program, then the one on the PATH)")
	cmd.Flags().IntVar(&o.Rounds, "rounds", 3, "how often everything is measured")
	cmd.Flags().BoolVar(&o.Spread, "spread", false, "measure what a message costs with clients spread over three bridges, against one bridge alone")
	cmd.Flags().DurationVar(&o.Duration, "duration", 3*time.Second, "of each run")
	return cmd
}

func invokeCommand() *cobra.Command {
	var program string
	var peers []string
	var llm bool
	var o bench.InvokeOptions
	cmd := &cobra.Command{
		Use:   "invoke",
		Short: "Compare skill.invoke with bare request and reply through other brokers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := bridgeProgram(program)
			if err != nil {
				return err
			}
			o.Bridge = []string{program, "serve"}
			if o.Web && !cmd.Flags().Changed("peers") {
				peers = []string{bench.KindHTTP}
			}
			if o.Bare, err = peersNamed(peers); err != nil {
				return err
			}
			if llm {
				if o.Model, err = model(); err != nil {
					return err
				}
			}
			o.Progress = progressTo(cmd)
			report, err := bench.Invoke(cmd.Context(), o)
			if writeErr := report.WriteTable(cmd.OutOrStdout()); err == nil {
				err = writeErr
			}
			return err
		},
	}
	cmd.Flags().StringVar(&program, "bridge", "", "the aibridge program to measure (otherwise the one beside this program, then the one on the PATH)")
	cmd.Flags().StringSliceVar(&peers, "peers", []string{"mosquitto", bench.KindMochi}, "brokers for bare request and reply, the one to compare with first")
	cmd.Flags().BoolVar(&o.Web, "web", false, "call over HTTP/1.1, HTTP/2 and MCP, beside what net/http takes to answer alone")
	cmd.Flags().BoolVar(&llm, "llm", false, "ask a language model by llm.query, beside what asking it takes alone")
	cmd.MarkFlagsMutuallyExclusive("web", "llm")
	cmd.Flags().BoolVar(&o.AuditOff, "audit-off", true, "measure the bridge without its audit trail too")
	cmd.Flags().BoolVar(&o.SyncAlways, "sync-always", true, "measure the bridge with --sync always too")
	cmd.Flags().IntSliceVar(&o.Windows, "windows", []int{1, 16}, "calls open at a time")
	cmd.Flags().IntSliceVar(&o.Callers, "callers", []int{50, 1}, "clients that call the agents")
	cmd.Flags().IntVar(&o.Agents, "agents", 1, "agents that are called over MQTT, each by its share of the callers")
	cmd.Flags().IntSliceVar(&o.Processors, "processors", nil, "measure the bridge besides as it is on so many processors (GOMAXPROCS)")
	cmd.Flags().IntVar(&o.Rounds, "rounds", 3, "how often everything is measured")
	cmd.Flags().DurationVar(&o.Duration, "duration", 3*time.Second, "of each run")
	cmd.Flags().Float64Var(&o.Quiet, "quiet", 0, "wait until others keep less than this many processors busy, and repeat runs they disturbed")
	return cmd
}

func goalsCommand() *cobra.Command {
	var program string
	var only []string
	var o bench.GoalsOptions
	cmd := &cobra.Command{
		Use:   "goals",
		Short: "Measure what the bridge is to reach, and print one table of what it does",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := bridgeProgram(program)
			if err != nil {
				return err
			}
			o.Bridge = []string{program, "serve"}
			if o.Peers, err = peersNamed([]string{"mosquitto", bench.KindBroker}); err != nil {
				return err
			}
			asked, err := model()
			if err != nil {
				return err
			}
			o.Model = *asked
			for _, part := range only {
				o.Only = append(o.Only, bench.Part(part))
			}
			o.Progress = progressTo(cmd)
			report, err := bench.MeasureGoals(cmd.Context(), o)
			if writeErr := bench.WriteScores(cmd.OutOrStdout(), report.Judge(bench.Goals(o.Only...))); err == nil {
				err = writeErr
			}
			return err
		},
	}
	cmd.Flags().StringVar(&program, "bridge", "", "the aibridge program to measure (otherwise the one beside this program, then the one on the PATH)")
	cmd.Flags().StringSliceVar(&only, "only", nil, fmt.Sprintf("parts of the table to measure, of %v; all by default", bench.Parts()))
	cmd.Flags().IntVar(&o.Rounds, "rounds", 3, "how often everything is measured")
	cmd.Flags().DurationVar(&o.Duration, "duration", 3*time.Second, "of each run")
	cmd.Flags().Float64Var(&o.Quiet, "quiet", 0, "wait until others keep less than this many processors busy, and repeat runs they disturbed")
	return cmd
}

func guardCommand() *cobra.Command {
	var before, after string
	var llm bool
	var o bench.GuardOptions
	cmd := &cobra.Command{
		Use:   "guard --before PROGRAM",
		Short: "Compare the processor time a call takes with that of an earlier aibridge",
		Long: `Run two builds of aibridge in turn, under the same load, and fail if the later one
takes more processor time for a message than the limit allows. Where other work on
the machine hides the answer, more runs are made; if they do not tell either, the
table says so, and that is no failure.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			after, err := bridgeProgram(after)
			if err != nil {
				return err
			}
			o.Before, o.After = []string{before, "serve"}, []string{after, "serve"}
			if llm {
				if o.Model, err = model(); err != nil {
					return err
				}
			}
			o.Progress = progressTo(cmd)
			all, err := bench.Guard(cmd.Context(), o)
			if writeErr := bench.WriteComparisons(cmd.OutOrStdout(), all, o.Limit); err == nil {
				err = writeErr
			}
			if err != nil {
				return err
			}
			for _, c := range all {
				if j := c.Judge(o.Limit); j == bench.Slower || j == bench.Busier || j == bench.Failed {
					return fmt.Errorf("%s: %s", c.Scenario, j)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&before, "before", "", "the aibridge program to compare with")
	cmd.Flags().StringVar(&after, "after", "", "the aibridge program to measure (otherwise the one beside this program, then the one on the PATH)")
	cmd.Flags().IntSliceVar(&o.Windows, "windows", []int{1, 16}, "calls open at a time")
	cmd.Flags().IntSliceVar(&o.Callers, "callers", []int{50, 1}, "clients that call the one agent")
	cmd.Flags().BoolVar(&o.Bare, "bare", true, "compare request and reply that no command is part of, too")
	cmd.Flags().BoolVar(&o.Web, "web", true, "compare calls over HTTP and MCP, too")
	cmd.Flags().BoolVar(&llm, "llm", true, "compare questions to a language model, too")
	cmd.Flags().IntVar(&o.Pairs, "pairs", 6, "pairs of runs for a first look; up to three times as many where they do not tell")
	cmd.Flags().Float64Var(&o.Limit, "limit", 1.10, "ratio of processor times above which the later build is slower")
	cmd.Flags().DurationVar(&o.Duration, "duration", time.Second, "of each run")
	_ = cmd.MarkFlagRequired("before") // fails only for a flag that there is not
	return cmd
}

// serveCommand is the command with which the load generator starts this program.
func serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "serve KIND ADDRESS DIR",
		Short:  "Serve one of the linked brokers, for the load generator",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.Serve(cmd.Context(), args[0], args[1], args[2])
		},
	}
}

// bridgeProgram is the program of the bridge that is to be measured.
func bridgeProgram(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "aibridge")
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath("aibridge")
	if err != nil {
		return "", errors.New("there is no aibridge beside this program, nor on the PATH; --bridge names it")
	}
	return found, nil
}

// model is the language model that is linked into this program.
func model() (*bench.Peer, error) {
	peers, err := peersNamed([]string{bench.KindModel})
	if err != nil {
		return nil, err
	}
	return &peers[0], nil
}

// peersNamed are the brokers with the names. mosquitto is left out where it
// is not installed.
func peersNamed(names []string) ([]bench.Peer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var peers []bench.Peer
	for _, name := range names {
		if name != "mosquitto" {
			peers = append(peers, bench.Hosted(name, self, "serve"))
		} else if mosquitto, ok := bench.Mosquitto(); ok {
			peers = append(peers, mosquitto)
		}
	}
	return peers, nil
}

func progressTo(cmd *cobra.Command) func(string) {
	return func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
}
