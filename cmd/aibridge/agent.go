package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/client/agent/end"
	"github.com/aibridge/aibridge/client/agent/script"
	"github.com/aibridge/aibridge/protocol"
)

func agentCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "agent", Short: "Run an agent, and see which are registered"}
	cmd.AddCommand(agentEndCommand(), agentRouteCommand(), agentDoctorCommand())
	return cmd
}

func agentEndCommand() *cobra.Command {
	var target target
	var files syncedFolder
	var id, name, skills, joinFile string
	var concurrency int
	var passEnv []string
	var tags map[string]string
	var takeOver bool
	cmd := &cobra.Command{
		Use:   "end",
		Short: "Serve the skills of a folder",
		Long: `Serve every folder below --skills that holds a skill.yaml. A capability is an
executable scripts/NAME or scripts/NAME.sh that reads its parameters as JSON
from standard input and prints its result as JSON. Changes are picked up while
the agent runs. docs/skills.md says more.

With --cap and --dir a folder is kept the same as the disk of a Cap, over HTTP;
docs/sync.md says more. It may have nothing to do with the folder of skills.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if id == "" {
				id = defaultAgentID()
			}
			if _, err := os.ReadDir(skills); err != nil {
				return hinted{err, "--skills names the folder that has a folder for each skill"}
			}
			joins, err := joinsIn(joinFile)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)).With("agent", id)
			kept, err := files.open(cmd.Context(), &target, id, skills, log)
			if err != nil {
				return err
			}
			if err := checkFree(cmd.Context(), &target, id); err != nil && !takeOver {
				return err
			}
			c, err := target.dial(cmd.Context(),
				client.WithAgent(client.Agent{ID: protocol.AgentID(id), Name: name, Tags: tags}),
				client.WithConcurrency(concurrency, 4*concurrency),
				client.WithLogger(log))
			if err != nil {
				return err
			}
			defer c.Close()
			fmt.Fprintf(cmd.ErrOrStderr(), "agent %s serves %s at %s\n", id, skills, target.mqttURL())
			group, ctx := errgroup.WithContext(cmd.Context())
			group.Go(func() error { return kept.run(ctx, c) })
			group.Go(func() error {
				return end.Run(ctx, end.Options{
					Client:    c,
					AgentID:   protocol.AgentID(id),
					SkillsDir: skills,
					Joins:     joins,
					Scripts:   script.Options{Concurrent: concurrency, Waiting: 4 * concurrency, PassEnv: passEnv},
					Log:       log,
				})
			})
			return group.Wait()
		},
	}
	target.addFlags(cmd.Flags())
	files.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&id, "id", "", "id of the agent; made from the host's name by default")
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "disconnect whoever is online under the id; for a device that restarts before its old connection was given up")
	cmd.Flags().StringVar(&name, "name", "", "name of the agent, for people")
	cmd.Flags().StringToStringVar(&tags, "tag", nil, "tags that selectors choose the agent by, NAME=VALUE; without any it keeps those it has")
	cmd.Flags().StringVar(&skills, "skills", "skills", "folder with a folder for each skill")
	cmd.Flags().StringVar(&joinFile, "join-file", "", "file with join tokens for skills that are somebody else's, a line \"SKILL TOKEN\" for each")
	cmd.Flags().IntVar(&concurrency, "concurrency", 32, "scripts running at once, of which one caller has a quarter")
	cmd.Flags().StringSliceVar(&passEnv, "pass-env", nil, "names of environment variables that scripts get, besides the usual few")
	return cmd
}

// checkFree refuses the id of an agent that is online: with its id it would be
// disconnected. An agent that may not ask finds out when it connects.
func checkFree(ctx context.Context, t *target, id string) error {
	c, err := t.dial(ctx)
	if err != nil {
		return nil //nolint:nilerr // the agent's own connection fails for the same reason, or this one was needless
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	found, err := client.Call[struct {
		Status string `json:"status"`
	}](ctx, c, "agent.get", map[string]any{"agent_id": id})
	if err != nil || found.Status != "online" {
		return nil //nolint:nilerr // it is not there, or nobody tells
	}
	return hinted{
		protocol.Errorf(protocol.InvalidState, "the agent %s is online already: it would be disconnected", id).With("agent_id", id),
		"choose another --id, or take its place with --take-over",
	}
}

// defaultAgentID is the same at every start on one host, so that the agent is
// recognised, unless the host's name cannot be one.
func defaultAgentID() string {
	host, err := os.Hostname()
	id := protocol.AgentID("end-" + host)
	if err != nil || id.Rule().Check(string(id)) != "" {
		return "end-" + uuid.NewString()
	}
	return string(id)
}
