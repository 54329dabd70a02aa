package app

import (
	"net"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/connect/binding"
	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// startConnect has devices at work that know nothing of the bridge.
func startConnect(s *state, d *domains, server *broker.Broker, router *commands.Router) error {
	if s.config.Connect.Bindings == "" {
		return nil
	}
	metrics := device.NewMetrics(s.metrics)
	fleet := func(space protocol.SpaceID) *device.Fleet {
		return device.NewFleet(device.Options{
			Origin: "bindings", Space: space, Root: s.config.Root, Router: router, Agents: d.agents, Metrics: metrics, Log: s.log,
			Dial: func(who grant.Grant) (net.Conn, error) { return server.Inside("bridge", who) },
		})
	}
	bindings, err := binding.Open(binding.Options{Path: s.config.Connect.Bindings, Root: s.config.Root, Fleet: fleet, Log: s.log})
	if err != nil {
		return err
	}
	s.life.Run("bindings", bindings.Run)
	return nil
}
