package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Have language models execute workflows, and watch them",
		Long: `Work with workflow packages and the runs of them: a model walks a graph of
steps, with files as its memory. A run goes on when this program ends, and
after a crash of the bridge.`,
	}
	cmd.AddCommand(
		runImportCommand(), runPackagesCommand(), runStartCommand(), runContinueCommand(), runFollowCommand(),
		runStatusCommand(), runTurnsCommand(), runCancelCommand(), runListCommand(),
	)
	return cmd
}

func runPackagesCommand() *cobra.Command {
	var s sessionFlags
	var most int
	cmd := &cobra.Command{
		Use:   "packages [NAME]",
		Short: "List the packages that can be run",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"limit": most}
			if len(args) == 1 {
				params["name"] = args[0]
			}
			return s.run(cmd, params, simply("llm.run.packages"))
		},
	}
	s.addTarget(cmd)
	cmd.Flags().IntVar(&most, "limit", 100, "how many to show at most, up to 1000")
	return cmd
}

func runStatusCommand() *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{
		Use:   "status RUN_ID",
		Short: "Show a run: its phase, where it is and what it asks",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, map[string]any{"run_id": args[0]}, simply("llm.run.status"))
		},
	}
	s.addTarget(cmd)
	return cmd
}

func runCancelCommand() *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{
		Use:   "cancel RUN_ID",
		Short: "Stop a run; it can be continued later",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, map[string]any{"run_id": args[0]}, simply("llm.run.cancel"))
		},
	}
	s.addTarget(cmd)
	return cmd
}

func runListCommand() *cobra.Command {
	var s sessionFlags
	var phase string
	var most int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, the latest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			params := map[string]any{"limit": most}
			optional(params, "phase", phase)
			return s.run(cmd, params, simply("llm.run.list"))
		},
	}
	s.addTarget(cmd)
	cmd.Flags().StringVar(&phase, "phase", "", "Running, WaitingUser, WaitingApproval, Completed or Failed: only runs in this phase")
	cmd.Flags().IntVar(&most, "limit", 100, "how many to show at most, up to 1000")
	s.addWatch(cmd, "run")
	return cmd
}

func runTurnsCommand() *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{
		Use:   "turns RUN_ID",
		Short: "Show what the model was asked, what it answered, and what its calls came to",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.show = writeTurns
			return s.run(cmd, map[string]any{"run_id": args[0]}, allTurns)
		},
	}
	s.addTarget(cmd)
	return cmd
}

// allTurns asks for page after page and makes one answer of them.
func allTurns(ctx context.Context, call caller, params map[string]any) (json.RawMessage, error) {
	all := struct {
		Turns []json.RawMessage `json:"turns"`
		Total int               `json:"total"`
	}{Turns: []json.RawMessage{}}
	for {
		result, err := call(ctx, "llm.run.turns", params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Turns []json.RawMessage `json:"turns"`
			Total int               `json:"total"`
			Next  int               `json:"next_after"`
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, err
		}
		all.Turns, all.Total = append(all.Turns, page.Turns...), page.Total
		if page.Next == 0 {
			return json.Marshal(all)
		}
		params["after"] = page.Next
	}
}

// runStart holds the flags for starting a run.
type runStart struct {
	mode, workflow, agent, project, model string
	tools                                 []string
	variables                             map[string]string
	autopilot, deltas                     bool
	turns                                 int
}

func runStartCommand() *cobra.Command {
	var f runFollower
	var o runStart
	var input string
	cmd := &cobra.Command{
		Use:   "start [PACKAGE]",
		Short: "Start a workflow, or a conversation with an agent or a model, and watch it",
		Example: `  aibridge run start climate-check --project home --tool 'thermostat-go.*'
  aibridge run start climate-check --agent caretaker --mode agent --interactive
  aibridge run start --input "What can you do here?"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{}
			if len(args) == 1 {
				params["package"] = args[0]
			}
			for name, value := range map[string]string{
				"mode": o.mode, "workflow": o.workflow, "agent": o.agent, "project": o.project, "model": o.model,
			} {
				optional(params, name, value)
			}
			if cmd.Flags().Changed("tool") {
				params["tools"] = o.tools
			}
			if cmd.Flags().Changed("input") {
				params["input"] = input
			}
			if o.turns > 0 {
				params["max_turns"] = o.turns
			}
			if len(o.variables) > 0 {
				params["variables"] = variables(o.variables)
			}
			params["autopilot"], params["deltas"] = o.autopilot, o.deltas
			return f.run(cmd, "llm.run.start", params)
		},
	}
	f.addFlags(cmd)
	cmd.Flags().StringVar(&o.mode, "mode", "", "run, agent or chat; run by default, chat without a package")
	cmd.Flags().StringVar(&o.workflow, "workflow", "", "workflow of the package; its first by default")
	cmd.Flags().StringVar(&o.agent, "agent", "", "agent of the package; its first by default")
	cmd.Flags().StringVar(&o.project, "project", "", "group of files that is the project; one of its own by default")
	cmd.Flags().StringVar(&o.model, "model", "", "language model; the bridge's default one if left out")
	cmd.Flags().StringSliceVar(&o.tools, "tool", nil, "pattern of tools of the bridge that may be used, such as 'thermostat.*'; by default those that the package names")
	cmd.Flags().StringToStringVar(&o.variables, "set", nil, "variable to start with, NAME=VALUE; values that are JSON are taken as such")
	cmd.Flags().BoolVar(&o.autopilot, "autopilot", false, "have the model decide what it can")
	cmd.Flags().BoolVar(&o.deltas, "deltas", false, "show answers while they are written")
	cmd.Flags().IntVar(&o.turns, "max-turns", 0, "how often the model is asked without a word of yours; the bridge's default if 0")
	cmd.Flags().StringVar(&input, "input", "", "the first words")
	return cmd
}

// variables are values as they were meant: JSON where they are.
func variables(given map[string]string) map[string]any {
	values := make(map[string]any, len(given))
	for name, text := range given {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			value = text
		}
		values[name] = value
	}
	return values
}

func runContinueCommand() *cobra.Command {
	var f runFollower
	cmd := &cobra.Command{
		Use:   "continue RUN_ID [TEXT…]",
		Short: "Answer a run that waits, or have one go on that failed, and watch it",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("which run? aibridge run list shows them")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"run_id": args[0]}
			if len(args) > 1 {
				params["input"] = strings.Join(args[1:], " ")
			}
			return f.run(cmd, "llm.run.continue", params)
		},
	}
	f.addFlags(cmd)
	return cmd
}

func runFollowCommand() *cobra.Command {
	var f runFollower
	cmd := &cobra.Command{
		Use:   "follow RUN_ID",
		Short: "Watch a run until it is at rest",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, "llm.run.status", map[string]any{"run_id": args[0]})
		},
	}
	f.addFlags(cmd)
	return cmd
}

// writeTurns shows turns for people.
func writeTurns(out io.Writer, result json.RawMessage) error {
	var all struct {
		Turns []struct {
			ID       string `json:"id"`
			Node     string `json:"nodeId"`
			Response struct {
				Segments []struct {
					Type, Text string
				} `json:"segments"`
				Duration float64 `json:"durationMs"`
				Usage    struct {
					Input  int `json:"input_tokens"`
					Output int `json:"output_tokens"`
				} `json:"usage"`
			} `json:"response"`
			ToolRuns []struct {
				Tool     string          `json:"toolName"`
				Args     json.RawMessage `json:"args"`
				Result   json.RawMessage `json:"result"`
				Duration float64         `json:"durationMs"`
			} `json:"toolRuns"`
			After *struct {
				Phase string `json:"phase"`
				Stop  string `json:"stopReason"`
			} `json:"uiAfter"`
		} `json:"turns"`
	}
	if err := json.Unmarshal(result, &all); err != nil {
		return err
	}
	for _, t := range all.Turns {
		fmt.Fprintf(out, "%s  %s  %.0f ms, %d + %d tokens\n", t.ID, cell(t.Node), t.Response.Duration, t.Response.Usage.Input, t.Response.Usage.Output)
		for _, s := range t.Response.Segments {
			if s.Type == "text" {
				fmt.Fprintf(out, "  %s\n", cell(s.Text))
			}
		}
		for _, r := range t.ToolRuns {
			fmt.Fprintf(out, "  → %s %s  (%.1f ms)\n  ← %s\n", cell(r.Tool), inRow(cell(string(r.Args))), r.Duration, inRow(cell(string(r.Result))))
		}
		if t.After != nil && t.After.Phase != "Running" {
			fmt.Fprintf(out, "  %s %s\n", t.After.Phase, t.After.Stop)
		}
	}
	return nil
}
