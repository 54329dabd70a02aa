package app

import (
	"context"

	"github.com/aibridge/aibridge/llm/agent"
	"github.com/aibridge/aibridge/vfs/mirror/caps/channels"
)

// start has the parts run that were made. Each is noted in the lifecycle, so
// that the order here is the order of starting, and backwards that of stopping.
func start(ctx context.Context, s *state, d *domains, o *doors) error {
	s.life.Run("registry", d.agents.Run)
	s.life.Run("state of agents", d.shadows.Run)
	s.life.Run("caps", d.channels.Run)
	s.life.Run("files", s.once(d.files.store.Run))
	s.life.Run("changes of files", d.files.Run)
	s.life.Run("chunks of files", o.chunks.Run)
	s.life.Run("mirror of Caps", s.once(func(ctx context.Context) error { return d.mirror.Run(ctx, channels.All(d.channels)) }))
	if err := d.models.configure(s); err != nil {
		return err
	}
	if !s.config.Shared() { // no other bridge waits for any of them
		if err := d.approvals.Recover(ctx); err != nil {
			return err
		}
	}
	s.life.Run("approvals", d.approvals.Run)
	s.life.Run("webhooks of bridges that ended", func(ctx context.Context) error { return retellWebhooks(ctx, s, d.approvals) })
	s.life.Run("vectors of tools", d.tools.retriever.Run)
	s.life.Run("conversations", s.once(d.chats.Run))
	if err := d.tasks.Recover(ctx); err != nil {
		return err
	}
	s.life.Add("tasks", d.tasks.Close)
	if err := d.groups.Recover(ctx); err != nil {
		return err
	}
	s.life.Add("groups", d.groups.Close)
	if err := d.rollouts.Recover(ctx); err != nil { // after their waves
		return err
	}
	s.life.Add("rollouts", d.rollouts.Close)
	s.life.Run("work of bridges that ended", s.once(func(ctx context.Context) error { return takeOver(ctx, s, d) }))
	s.life.Add("answers over HTTP", o.servers.Finish)
	s.life.Add("connections of agents", o.api.CloseAgents)
	s.life.Drain("commands", o.router.Close)
	s.life.Add("waiting approvals", d.approvals.Close)
	s.life.Run("parked tasks", s.once(d.parked.Run))
	s.life.Add("parked tasks", d.parked.Close)
	if len(s.config.MCP.Servers) > 0 || s.config.MCP.Devices.On {
		s.life.Run("MCP servers", d.tools.servers.Run)
	}
	if o.mcp != nil {
		s.life.Add("MCP over MQTT", o.mcp.topic.Close)
		s.life.Run("MCP", o.mcp.door.Run)
	}
	s.life.Drain("api", o.api.Close)
	followCredentials(s, d, o.router)
	s.life.Run("certificates", d.identities.pki.Run)
	s.life.Run("mcpAgent", func(ctx context.Context) error {
		return d.models.agent.Run(ctx, agent.Parts{Models: d.models.service, Router: o.router, Agents: d.agents, Log: s.log, Elected: s.Members.Elected()})
	})
	if err := startConnect(s, d, o.broker, o.router); err != nil {
		return err
	}
	if err := startNATS(s, d, o.broker, o.router); err != nil {
		return err
	}
	startLinks(s, d, o.broker)
	startSite(s)
	s.life.Run("scenes", d.scenes.Run)
	d.runs.Recover(ctx)
	s.life.Add("workflows", d.runs.Close)
	if s.config.Shared() {
		s.life.Run("workflows of bridges that ended", func(ctx context.Context) error { return takeOverRuns(ctx, s, d.runs) })
		s.life.Run("packages of workflows", s.once(d.runs.Sweep))
		s.life.Run("audit trails of bridges that ended", func(ctx context.Context) error { return closeTrails(ctx, s) })
	}
	s.life.Run("backups", s.once(d.backups.Run))
	s.life.Run("server certificate", func(ctx context.Context) error { return o.tls.Run(ctx, s.log) })
	if d.relay != nil {
		if err := d.relay.await(ctx, s.life); err != nil {
			return err
		}
		o.broker.PublishWills()
	}
	return s.lobby.Close(ctx)
}
