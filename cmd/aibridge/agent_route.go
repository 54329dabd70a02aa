package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/agent/route"
	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

func agentRouteCommand() *cobra.Command {
	var target target
	var id, name, scene, skill, channel, group string
	cmd := &cobra.Command{
		Use:   "route",
		Short: "Route commands to the members of a scene",
		Long: `Serve a skill with the capability "route". Who invokes it has a command carried
to every member of a group: the agent looks who is there, dispatches, gathers
what the members answer and returns the summary.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if id == "" {
				id = "route-" + scene
			}
			if skill == "" {
				skill = id
			}
			if err := errors.Join(
				checkName[protocol.AgentID]("--id", id),
				checkName[protocol.SkillID]("--skill", skill),
				checkName[protocol.SceneType]("--scene", scene),
				checkName[protocol.CapID]("--cap", channel),
				checkName[protocol.GroupID]("--group", group),
			); err != nil {
				return usageError{err}
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)).With("agent", id)
			c, err := target.dial(cmd.Context(),
				client.WithAgent(client.Agent{ID: protocol.AgentID(id), Type: client.RouteAgent, Name: name}),
				client.WithLogger(log))
			if err != nil {
				return err
			}
			defer c.Close()
			return route.Run(cmd.Context(), route.Options{
				Client: c, Skill: protocol.SkillID(skill), Scene: protocol.SceneType(scene),
				Cap: protocol.CapID(channel), Group: protocol.GroupID(group), Log: log,
			})
		},
	}
	target.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&scene, "scene", "", "type of the scene")
	cmd.Flags().StringVar(&channel, "cap", "", "Cap that is the channel of the scene")
	cmd.Flags().StringVar(&group, "group", "", "group that is asked when the caller names no other")
	cmd.Flags().StringVar(&id, "id", "", "id of the agent; route-SCENE by default")
	cmd.Flags().StringVar(&skill, "skill", "", "id of the skill it serves; the agent's by default")
	cmd.Flags().StringVar(&name, "name", "", "name of the agent, for people")
	for _, needed := range []string{"scene", "cap", "group"} {
		_ = cmd.MarkFlagRequired(needed)
	}
	return cmd
}

// checkName says what is wrong with an identifier given as a flag.
func checkName[ID protocol.Identifier](flag, text string) error {
	var id ID
	if reason := id.Rule().Check(text); reason != "" {
		return fmt.Errorf("%s %s", flag, reason)
	}
	return nil
}
