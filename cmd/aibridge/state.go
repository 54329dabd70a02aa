package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

func stateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "state", Short: "See and set what devices shall be, and see what they are"}
	cmd.AddCommand(stateGetCommand(), stateSetCommand())
	return cmd
}

func stateSetCommand() *cobra.Command {
	var c call
	var version uint64
	var replace bool
	cmd := &cobra.Command{
		Use:   "set AGENT_ID SKILL_ID name=value… | {…} | @file",
		Short: "Say what a skill of a device shall be, also while the device is away",
		Long: `Change the desired state of a skill: each name is set to its value, {…} and
@file are merge patches (RFC 7386), and null removes. It is state.desired.set.
docs/state.md says more.`,
		Example: `  aibridge state set thermostat-1 heating celsius=21.5
  aibridge state set thermostat-1 heating '{"schedule":null}' --version 4`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.MinimumNArgs(3)(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		},
		ValidArgsFunction: completeArguments(&c.target, "state.desired.set", "agent_id", "skill_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := parseArguments(args[2:], nil, cmd.InOrStdin())
			if err != nil {
				return err
			}
			params := map[string]any{"agent_id": args[0], "skill_id": args[1], "state": patch, "replace": replace}
			if cmd.Flags().Changed("version") {
				params["version"] = version
			}
			word, err := json.Marshal(params)
			if err != nil {
				return err
			}
			return c.run(cmd, "state.desired.set", []string{string(word)})
		},
	}
	c.addFlags(cmd)
	cmd.Flags().Uint64Var(&version, "version", 0, "the version that the desired state must have, 0 if it was never set")
	cmd.Flags().BoolVar(&replace, "replace", false, "let this take the place of all that is there")
	return cmd
}

func stateGetCommand() *cobra.Command {
	s := sessionFlags{show: writeStates}
	var history bool
	cmd := &cobra.Command{
		Use:   "get AGENT_ID [SKILL_ID]",
		Short: "Show what the skills of a device shall be, what they are, and the difference",
		Long: `Show the desired and the reported state of the skills of a device, and the
delta: what is to be changed. It is state.get. docs/state.md says more.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.RangeArgs(1, 2)(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		},
		ValidArgsFunction: completeArguments(&s.target, "state.get", "agent_id", "skill_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"agent_id": args[0], "history": history}
			if len(args) > 1 {
				params["skill_id"] = args[1]
			}
			return s.run(cmd, params, simply("state.get"))
		},
	}
	s.addFlags(cmd)
	cmd.Flags().BoolVar(&history, "history", false, "the latest changes, too")
	return cmd
}

// agentStates is the result of state.get.
type agentStates struct {
	Skills []struct {
		SkillID  protocol.SkillID `json:"skill_id"`
		Desired  stateDocument    `json:"desired"`
		Reported stateDocument    `json:"reported"`
		Delta    json.RawMessage  `json:"delta"`
	} `json:"skills"`
}

type stateDocument struct {
	Version   uint64          `json:"version"`
	State     json.RawMessage `json:"state"`
	UpdatedAt int64           `json:"updated_at"`
	UpdatedBy string          `json:"updated_by"`
	History   []struct {
		Version uint64          `json:"version"`
		At      int64           `json:"at"`
		By      string          `json:"by"`
		Patch   json.RawMessage `json:"patch"`
	} `json:"history"`
}

// writeStates shows the states of skills, one line for each document and each
// change.
func writeStates(w io.Writer, result json.RawMessage) error {
	var a agentStates
	if err := json.Unmarshal(result, &a); err != nil {
		return err
	}
	if len(a.Skills) == 0 {
		fmt.Fprintln(w, "none of its skills has state")
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range a.Skills {
		fmt.Fprintf(out, "%s\n", s.SkillID)
		s.Desired.write(out, "desired")
		s.Reported.write(out, "reported")
		fmt.Fprintf(out, "  delta\t%s\n", printable(string(s.Delta)))
	}
	return out.Flush()
}

func (d *stateDocument) write(out io.Writer, name string) {
	if d.Version == 0 {
		fmt.Fprintf(out, "  %s\t{}\tnever set\n", name)
		return
	}
	fmt.Fprintf(out, "  %s\t%s\tversion %d, %s by %s\n", name, printable(string(d.State)), d.Version, when(d.UpdatedAt), printable(d.UpdatedBy))
	for _, c := range d.History {
		fmt.Fprintf(out, "  \t%s\tversion %d, %s by %s\n", printable(string(c.Patch)), c.Version, when(c.At), printable(c.By))
	}
}

// when is a time as people here write it.
func when(milliseconds int64) string {
	return time.UnixMilli(milliseconds).Format(time.DateTime)
}
