package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/protocol"
)

func callCommand() *cobra.Command {
	var c call
	cmd := &cobra.Command{
		Use:   "call COMMAND [name=value… | {…} | @file]",
		Short: "Run a command on a bridge and show its result",
		Example: `  aibridge call skill.discover
  aibridge call skill.invoke skill_id=thermostat capability_id=read
  aibridge call skill.invoke skill_id=thermostat capability_id=set_target params.celsius=21
  echo '{"agent_id":"a1","type":"end_agent"}' | aibridge call agent.register @-`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("which command? aibridge describe lists them")}
			}
			return nil
		},
		ValidArgsFunction: completeCommand(&c.target),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0], args[1:]) },
	}
	c.addFlags(cmd)
	return cmd
}

// A call runs one command on the bridge and shows its result.
type call struct {
	target  target
	seal    seal
	shown   format
	events  bool
	watch   bool // of a command that lists
	timeout time.Duration
}

func (c *call) addFlags(cmd *cobra.Command) {
	c.target.addFlags(cmd.Flags())
	c.seal.addFlags(cmd.Flags())
	c.shown.addFlags(cmd)
	cmd.Flags().BoolVar(&c.events, "events", false, "show progress on standard error while the command runs")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 30*time.Second, "how long the bridge may take")
}

// run runs a command with the parameters in words.
func (c *call) run(cmd *cobra.Command, name string, words []string) error {
	if c.timeout <= 0 || c.timeout > protocol.MaxTimeout {
		return usageError{fmt.Errorf("--timeout %s is not within 1ms and %s", c.timeout, protocol.MaxTimeout)}
	}
	params, err := parseArguments(words, paramsSchema(name), cmd.InOrStdin())
	if err != nil {
		return err
	}
	bridge, err := c.target.dial(cmd.Context())
	if err != nil {
		return err
	}
	defer bridge.Close()
	opts, err := c.seal.options()
	if err != nil {
		return err
	}
	opts = append(opts, client.WithTimeout(c.timeout))
	if c.events {
		opts = append(opts, client.OnEvent(func(e *protocol.Event) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s %s\n", printable(e.Name), jsonLine(e.Data))
		}))
	}
	ask := func(ctx context.Context) (json.RawMessage, error) {
		ctx, cancel := context.WithTimeout(ctx, c.timeout+2*time.Second)
		defer cancel()
		result, err := client.Call[json.RawMessage](ctx, bridge, name, params, opts...)
		if err != nil {
			return nil, meant(ctx, bridge, params, err)
		}
		return result, nil
	}
	if c.watch {
		family, _, _ := strings.Cut(name, ".")
		return watchList(cmd, bridge, c.shown, family, writeTable, ask)
	}
	result, err := ask(cmd.Context())
	if err != nil {
		return err
	}
	return c.shown.write(output(cmd), result, writeTable)
}

// paramsSchema is the schema of a command this binary knows, nil for others.
func paramsSchema(name string) json.RawMessage {
	if command, ok := app.Commands().Find(name); ok {
		return command.ParamsSchema()
	}
	return nil
}
