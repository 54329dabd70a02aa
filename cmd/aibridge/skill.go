package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

func skillCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "skill", Short: "Find and invoke skills, and decide which agents provide them"}
	join := &cobra.Command{Use: "join", Short: "Make, list and revoke tokens with which agents join those that provide a skill"}
	join.AddCommand(skillJoinCreateCommand(), skillJoinListCommand(), skillJoinRevokeCommand())
	provider := &cobra.Command{Use: "provider", Short: "Add and remove agents that provide a skill"}
	provider.AddCommand(
		skillProviderCommand("add", "Have a registered agent provide a skill too"),
		skillProviderCommand("remove", "Stop an agent from providing a skill"))
	cmd.AddCommand(join, provider)
	return cmd
}

func skillJoinCreateCommand() *cobra.Command {
	var s sessionFlags
	var uses int
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "create SKILL",
		Short: "Make a join token for a skill",
		Long: `Make a token with which agents of others join those that provide a skill. It
is shown once: the bridge keeps only what it needs to recognise it.`,
		Example:           `  aibridge skill join create heating --uses 10 --ttl 1h`,
		Args:              exactArgs(1),
		ValidArgsFunction: completeArguments(&s.target, "skill.join.create", "skill_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if ttl < time.Second {
				return usageError{errors.New("--ttl must be a second or more")}
			}
			params := map[string]any{"skill_id": args[0], "uses": uses, "ttl_seconds": int64(ttl / time.Second)}
			return s.run(cmd, params, func(ctx context.Context, call caller, params map[string]any) (json.RawMessage, error) {
				result, err := call(ctx, "skill.join.create", params)
				if err == nil {
					fmt.Fprintln(cmd.ErrOrStderr(), "Keep the token: it is not shown again.")
				}
				return result, err
			})
		},
	}
	s.addFlags(cmd)
	cmd.Flags().IntVar(&uses, "uses", 1, "how many agents may join with it, up to 256")
	cmd.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "how long it can be used, up to 720h")
	return cmd
}

func skillJoinListCommand() *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{
		Use:               "list SKILL",
		Short:             "List the join tokens of a skill that can still be used, without their secrets",
		Args:              exactArgs(1),
		ValidArgsFunction: completeArguments(&s.target, "skill.join.list", "skill_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, map[string]any{"skill_id": args[0]}, simply("skill.join.list"))
		},
	}
	s.addFlags(cmd)
	s.addWatch(cmd, "skill")
	return cmd
}

func skillJoinRevokeCommand() *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{
		Use:               "revoke SKILL TOKEN_ID",
		Short:             "Take a join token back; the agents that it has let in stay",
		Args:              exactArgs(2),
		ValidArgsFunction: completeArguments(&s.target, "skill.join.revoke", "skill_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, map[string]any{"skill_id": args[0], "token_id": args[1]}, simply("skill.join.revoke"))
		},
	}
	s.addFlags(cmd)
	return cmd
}

func skillProviderCommand(verb, short string) *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{
		Use:               verb + " SKILL AGENT",
		Short:             short,
		Args:              exactArgs(2),
		ValidArgsFunction: completeArguments(&s.target, "skill.provider."+verb, "skill_id", "agent_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, map[string]any{"skill_id": args[0], "agent_id": args[1]}, simply("skill.provider."+verb))
		},
	}
	s.addFlags(cmd)
	return cmd
}

// joinsIn reads the join tokens in a file, a line "SKILL TOKEN" for each.
func joinsIn(path string) (map[protocol.SkillID]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	joins := make(map[protocol.SkillID]string)
	for i, line := range strings.Split(string(text), "\n") {
		skill, token, ok := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case skill == "" || strings.HasPrefix(skill, "#"):
		case !ok || strings.ContainsAny(strings.TrimSpace(token), " \t"):
			return nil, usageError{fmt.Errorf("%s:%d: must be the id of a skill, a space and its join token", path, i+1)}
		default:
			joins[protocol.SkillID(skill)] = strings.TrimSpace(token)
		}
	}
	return joins, nil
}
