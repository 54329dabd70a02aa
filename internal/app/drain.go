package app

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster"
)

// drainWindow is over how long clients are sent to other bridges at most.
const drainWindow = 5 * time.Second

// sendClientsAway has the clients of a bridge that stops go to others of its
// cluster that work. Where there are none the broker just closes. It takes at most
// a third of the time that there is.
func sendClientsAway(s *state, server *broker.Broker) func(context.Context) error {
	return func(ctx context.Context) error {
		others := workingBeside(s.Members)
		if len(others) == 0 {
			return nil
		}
		window := drainWindow
		if deadline, ok := ctx.Deadline(); ok {
			window = min(window, time.Until(deadline)/3)
		}
		server.Drain(ctx, window, func(listener string) string { return references(others, listener) })
		return nil
	}
}

// workingBeside are the other members that serve clients.
func workingBeside(m *cluster.Membership) []cluster.Member {
	var others []cluster.Member
	for _, member := range m.Members() {
		if member.ID != m.Self().ID && member.State == cluster.Serving && member.Ready {
			others = append(others, member)
		}
	}
	return others
}

// references are the addresses of a listener on other bridges, as Server
// Reference has them. An address of all interfaces leads nowhere from elsewhere.
func references(others []cluster.Member, listener string) string {
	var list []string
	for _, member := range others {
		address := member.Addresses[listener]
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			continue
		}
		if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
			continue
		}
		list = append(list, address)
	}
	return strings.Join(list, " ")
}
