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
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch [FILTER…]",
		Short: "Show live events until interrupted",
		Long: `Show what happens on a bridge: registry and security events, tasks and agent
cards. With topic filters, show what is published there instead.`,
		RunE: func(cmd *cobra.Command, filters []string) error {
			c, err := target.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			if root := c.Topics().Root(); len(filters) == 0 {
				filters = []string{root + "/event/#", root + "/task/+/event", root + "/cap/+/event", root + "/agent/+/card"}
			}
			printer := &eventPrinter{out: cmd.OutOrStdout(), asJSON: asJSON}
			for _, filter := range filters {
				if _, err := c.Subscribe(cmd.Context(), filter, printer.print); err != nil {
					return fmt.Errorf("subscribe %s: %w", filter, err)
				}
			}
			<-cmd.Context().Done()
			return nil
		},
	}
	target.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line: topic and payload")
	return cmd
}

type eventPrinter struct {
	mu     sync.Mutex
	out    io.Writer
	asJSON bool
}

func (p *eventPrinter) print(_ context.Context, m client.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asJSON {
		payload := json.RawMessage(m.Payload)
		if !json.Valid(payload) {
			payload, _ = json.Marshal(string(m.Payload))
		}
		line, _ := json.Marshal(map[string]any{"topic": m.Topic, "payload": payload})
		fmt.Fprintf(p.out, "%s\n", jsonLine(line))
		return
	}
	fmt.Fprintf(p.out, "%s  %s  %s\n", time.Now().Format(time.TimeOnly), cell(m.Topic), cell(summary(m.Payload)))
}

// summary is an event's name and data, or the payload as it is.
func summary(payload []byte) string {
	if event, err := protocol.DecodeEvent(payload, protocol.Limits{}); err == nil {
		return event.Name + " " + string(event.Data)
	}
	return string(payload)
}
