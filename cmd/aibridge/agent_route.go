package main

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/client/agent/route"
	"github.com/aibridge/aibridge/protocol"
)

// A routing holds the flags of agent route.
type routing struct {
	target                                 target
	id, name, scene, skill, channel, group string
	owner                                  bool
}

func agentRouteCommand() *cobra.Command {
	var r routing
	cmd := &cobra.Command{
		Use:   "route",
		Short: "Lead a scene: route commands to those who take part in it",
		Long: `Declare a skill as the RouteAgent of a scene and serve its capability "route".
Who invokes it has a command carried to everybody who takes part in the scene:
the agent looks who is there, dispatches to the group, gathers what the members
answer and returns the summary. Where the scene has a RouteAgent already, this
one stands by until that one is gone.

A RouteAgent takes a certificate:

  aibridge cert issue --authority operator --skill hall --role agent_route --scene SMART_HOME --out hall
  aibridge agent route --cert hall/cert.pem --key hall/key.pem --scene SMART_HOME --cap home --group lamps

Its skill must be the Cap's own or a member of one of its groups, and a member
of the group that it is to ask.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	r.target.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&r.scene, "scene", "", "type of the scene")
	cmd.Flags().StringVar(&r.channel, "cap", "", "Cap that is the channel of the scene")
	cmd.Flags().StringVar(&r.group, "group", "", "group that is asked when the caller names no other")
	cmd.Flags().StringVar(&r.id, "id", "", "id of the agent; by default the one in the certificate")
	cmd.Flags().StringVar(&r.skill, "skill", "", "id of the skill it serves; the agent's by default")
	cmd.Flags().StringVar(&r.name, "name", "", "name of the agent, for people")
	cmd.Flags().BoolVar(&r.owner, "owner", false, "own the scene, also where the certificate of its owner has ended")
	for _, needed := range []string{"scene", "cap", "group"} {
		_ = cmd.MarkFlagRequired(needed)
	}
	return cmd
}

func (r *routing) run(cmd *cobra.Command) error {
	if r.id == "" {
		r.id = cmp.Or(certifiedAgent(r.target.cert), "route-"+r.scene)
	}
	r.skill = cmp.Or(r.skill, r.id)
	if err := errors.Join(
		checkName[protocol.AgentID]("--id", r.id),
		checkName[protocol.SkillID]("--skill", r.skill),
		checkName[protocol.SceneType]("--scene", r.scene),
		checkName[protocol.CapID]("--cap", r.channel),
		checkName[protocol.GroupID]("--group", r.group),
	); err != nil {
		return usageError{err}
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)).With("agent", r.id)
	c, err := r.target.dial(cmd.Context(),
		client.WithAgent(client.Agent{ID: protocol.AgentID(r.id), Type: client.RouteAgent, Name: r.name}),
		client.WithLogger(log))
	if err != nil {
		return err
	}
	defer c.Close()
	err = route.Run(cmd.Context(), route.Options{
		Client: c, Skill: protocol.SkillID(r.skill), Scene: protocol.SceneType(r.scene), Owner: r.owner,
		Cap: protocol.CapID(r.channel), Group: protocol.GroupID(r.group), Log: log,
	})
	if protocol.CodeOf(err) == protocol.CertificateRequired {
		return fmt.Errorf(`%w
get one with  aibridge cert issue --authority operator --skill %[2]s --role agent_route --scene %[3]s --out %[2]s
and add       --cert %[2]s/cert.pem --key %[2]s/key.pem`, err, r.skill, r.scene)
	}
	return err
}

// certifiedAgent is the agent that a certificate names, "" without one.
func certifiedAgent(path string) string {
	if path == "" {
		return ""
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "" // dialling reports it
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return ""
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return ""
	}
	for _, uri := range cert.URIs {
		if name, ok := strings.CutPrefix(uri.Opaque, "agent/"); ok && uri.Scheme == "aibridge" {
			if id, err := url.PathUnescape(name); err == nil {
				return id
			}
		}
	}
	return ""
}

// checkName refuses a bad identifier given as a flag.
func checkName[ID protocol.Identifier](flag, text string) error {
	var id ID
	if reason := id.Rule().Check(text); reason != "" {
		return fmt.Errorf("%s %s", flag, reason)
	}
	return nil
}
