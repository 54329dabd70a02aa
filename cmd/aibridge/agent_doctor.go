package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

func agentDoctorCommand() *cobra.Command {
	s := sessionFlags{show: writeDiagnosis}
	cmd := &cobra.Command{
		Use:   "doctor AGENT_ID",
		Short: "Say why a device does not work, and what to do about it",
		Long: `Look at a device from its credential to its last answers, and say what is
wrong, what most likely is the cause first. The device need not be registered:
connections that were refused are remembered for a day, in memory. It is
agent.doctor, which a device may ask about itself.

The exit code is 1 if something is wrong, with a table as output.`,
		Args:              exactArgs(1),
		ValidArgsFunction: completeArguments(&s.target, "agent.doctor", "agent_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, map[string]any{"agent_id": args[0]}, simply("agent.doctor"))
		},
	}
	s.addFlags(cmd)
	return cmd
}

// A diagnosis is the result of agent.doctor.
type diagnosis struct {
	AgentID  protocol.AgentID `json:"agent_id"`
	Space    protocol.SpaceID `json:"space_id"`
	Healthy  bool             `json:"healthy"`
	Summary  string           `json:"summary"`
	Findings []struct {
		Severity string `json:"severity"`
		What     string `json:"what"`
		Do       string `json:"do"`
	} `json:"findings"`
	Checks []struct {
		Check string `json:"check"`
		State string `json:"state"`
		What  string `json:"what"`
	} `json:"checks"`
}

// errUnwell ends the program with 1 when something is wrong with a device.
var errUnwell = errors.New("something is wrong with the device")

// writeDiagnosis shows the doctor's findings, in words.
func writeDiagnosis(w io.Writer, result json.RawMessage) error {
	var d diagnosis
	if err := json.Unmarshal(result, &d); err != nil {
		return err
	}
	if d.Healthy {
		fmt.Fprintf(w, "%s in space %s: %s\n", cell(string(d.AgentID)), cell(string(d.Space)), cell(d.Summary))
	} else {
		fmt.Fprintf(w, "%s in space %s does not work as it should:\n", cell(string(d.AgentID)), cell(string(d.Space)))
	}
	ink := inkOf(w)
	for _, f := range d.Findings {
		fmt.Fprintf(w, "\n%s: %s\n  → %s\n", ink.word(cell(f.Severity)), cell(f.What), cell(f.Do))
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range d.Checks {
		fmt.Fprintf(table, "%s\t%s\t%s\n", cell(c.Check), ink.word(cell(c.State)), cell(c.What))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if !d.Healthy {
		return errUnwell
	}
	return nil
}
