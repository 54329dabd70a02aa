package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

func watchCommand() *cobra.Command {
	var target target
	var shown format
	cmd := &cobra.Command{
		Use:   "watch [FILTER…]",
		Short: "Show live events until interrupted",
		Long: `Show what happens on a bridge: registry and security events, tasks and agent
cards, and to administrators what agents are asked over MQTT and what they
answer. With topic filters, show what is published there instead.`,
		RunE: func(cmd *cobra.Command, filters []string) error {
			c, err := target.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			printer := &eventPrinter{out: cmd.OutOrStdout(), shown: shown}
			if len(filters) == 0 {
				root := c.Topics().Root()
				filters = []string{root + "/event/#", root + "/task/+/event", root + "/cap/+/event", root + "/agent/+/card"}
				if err := watchInvocations(cmd.Context(), c, printer); protocol.CodeOf(err) == protocol.PermissionDenied {
					fmt.Fprintln(cmd.ErrOrStderr(), "without invocations, which administrators see")
				} else if err != nil {
					return err
				}
			}
			return watchTopics(cmd.Context(), c, printer, filters)
		},
	}
	target.addFlags(cmd.Flags())
	shown.addFlags(cmd)
	return cmd
}

// watchTopics shows published messages until ctx ends.
func watchTopics(ctx context.Context, c *client.Client, printer *eventPrinter, filters []string) error {
	for _, filter := range filters {
		if _, err := c.Subscribe(ctx, filter, printer.print); err != nil {
			return fmt.Errorf("subscribe %s: %w", filter, err)
		}
	}
	<-ctx.Done()
	return nil
}

// watchInvocations shows the requests to agents, and their answers. It does not
// wait.
func watchInvocations(ctx context.Context, c *client.Client, printer *eventPrinter) error {
	for _, direction := range []string{"request", "response"} {
		if _, err := c.Subscribe(ctx, c.Topics().Root()+"/agent/+/"+direction, printer.print); err != nil {
			return err
		}
	}
	return nil
}

type eventPrinter struct {
	mu    sync.Mutex
	out   io.Writer
	shown format
}

func (p *eventPrinter) print(_ context.Context, m client.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown.whole() {
		payload := json.RawMessage(m.Payload)
		if !json.Valid(payload) {
			payload, _ = json.Marshal(string(m.Payload))
		}
		line, _ := json.Marshal(map[string]any{"topic": m.Topic, "payload": payload})
		_ = p.shown.writeOne(p.out, line) // to a terminal, or a pipe that ends the command
		return
	}
	fmt.Fprintf(p.out, "%s  %s  %s\n", time.Now().Format(time.TimeOnly), cell(m.Topic), cell(summary(m.Payload)))
}

// summary is an event's name and data, a request's command and params, or a response's
// result or error; else the payload as it is.
func summary(payload []byte) string {
	var said struct {
		Type    string          `json:"type"`
		Command string          `json:"command"`
		Params  json.RawMessage `json:"params"`
		Status  string          `json:"status"`
		Result  json.RawMessage `json:"result"`
		Error   *protocol.Error `json:"error"`
	}
	if event, err := protocol.DecodeEvent(payload, protocol.Limits{}); err == nil {
		return event.Name + " " + string(event.Data)
	}
	switch err := json.Unmarshal(payload, &said); {
	case err != nil:
	case said.Type == "request":
		return "→ " + said.Command + " " + string(said.Params)
	case said.Type == "response" && said.Error != nil:
		return "← " + said.Error.Error()
	case said.Type == "response":
		return "← " + said.Status + " " + string(said.Result)
	}
	return string(payload)
}
