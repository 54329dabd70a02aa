package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/connect/homeassistant/entities"
	"github.com/aibridge/aibridge/protocol"
)

func homeAssistantCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "homeassistant", Short: "See what Home Assistant is shown of skills"}
	cmd.AddCommand(homeAssistantReportCommand())
	return cmd
}

func homeAssistantReportCommand() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "report [PATTERN…]",
		Short: "Say which entities skills are in Home Assistant, and what is left out, and why",
		Long: `Say which entities skills are, or would be, in Home Assistant (docs/home-assistant.md),
what of them is left out, and why. The patterns are those of connect.homeassistant.publish.skills;
without any, all skills of the space are looked at.`,
		Example: `  aibridge homeassistant report
  aibridge homeassistant report 'lamp-*'`,
		RunE: func(cmd *cobra.Command, patterns []string) error {
			for _, pattern := range patterns {
				if _, err := path.Match(pattern, ""); err != nil {
					return usageError{fmt.Errorf("%q is no pattern", pattern)}
				}
			}
			c, err := t.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			return reportEntities(cmd.Context(), c, patterns, cmd.OutOrStdout())
		},
	}
	t.addFlags(cmd.Flags())
	return cmd
}

// A discovered is a page of skill.discover.
type discovered struct {
	Skills []struct {
		ID           protocol.SkillID  `json:"skill_id"`
		Name         string            `json:"name"`
		Capabilities []json.RawMessage `json:"capabilities"`
	} `json:"skills"`
	Next string `json:"next_cursor"`
}

func reportEntities(ctx context.Context, c *client.Client, patterns []string, out io.Writer) error {
	for params := map[string]any{"limit": 100}; ; {
		page, err := client.Call[discovered](ctx, c, "skill.discover", params)
		if err != nil {
			return err
		}
		for _, s := range page.Skills {
			if !chosen(string(s.ID), patterns) {
				continue
			}
			skill := entities.Skill{ID: s.ID, Name: s.Name}
			for _, text := range s.Capabilities {
				skill.Capabilities = append(skill.Capabilities, capabilityOf(text))
			}
			reportDevice(out, entities.Show(&skill))
		}
		if page.Next == "" {
			return nil
		}
		params["cursor"] = page.Next
	}
}

func chosen(id string, patterns []string) bool {
	for _, pattern := range patterns {
		if ok, err := path.Match(pattern, id); ok && err == nil {
			return true
		}
	}
	return len(patterns) == 0
}

// capabilityOf is a capability as skill.discover shows it: an object, or its id.
func capabilityOf(text json.RawMessage) entities.Capability {
	var c struct {
		ID     protocol.CapabilityID `json:"capability_id"`
		Name   string                `json:"name"`
		Params json.RawMessage       `json:"params_schema"`
		Result json.RawMessage       `json:"result_schema"`
		Effect string                `json:"effect"`
		Risk   string                `json:"risk"`
		Sealed string                `json:"sealed"`
	}
	if json.Unmarshal(text, &c.ID) != nil {
		_ = json.Unmarshal(text, &c) // a broken field stays empty: there is nothing to show
	}
	return entities.Capability{
		ID: c.ID, Name: c.Name, Params: c.Params, Result: c.Result, Reads: c.Effect == "read", Risk: c.Risk, Sealed: c.Sealed == "required",
	}
}

func reportDevice(out io.Writer, d *entities.Device) {
	fmt.Fprintf(out, "%s: %s\n", d.Skill, d.Name)
	for i := range d.Entities {
		fmt.Fprintf(out, "  %s\n", &d.Entities[i])
	}
	for _, l := range d.LeftOut {
		fmt.Fprintf(out, "  left out: %s: %s\n", l.Capability, l.Reason)
	}
}
