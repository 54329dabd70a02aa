package app

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/aibridge/aibridge/cluster/direct"
	"github.com/aibridge/aibridge/cluster/relay"
	"github.com/aibridge/aibridge/commands/status"
	"github.com/aibridge/aibridge/security"
)

// directNote is the part of a bridge's record with its address for direct lines.
const directNote = "direct"

// newLines returns the carrier of frames over direct lines, and over NATS where
// there are none; nil for a bridge that is to have none.
func (r *relaying) newLines(s *state, ring *security.Keyring) (*direct.Switch, error) {
	if s.config.Cluster.Relay == "" {
		return nil, nil
	}
	return direct.New(direct.Options{
		Self: direct.Node(s.Members.Self()),
		// All bridges of the cluster compare the pepper when they join. Bridges of
		// another root are of another cluster, although they may have the same.
		Secret:   ring.Derive("cluster", "direct", s.config.Root),
		Fallback: r.line, Changed: func(bridge string) { r.Resume(bridge) },
		Log: s.log, Registerer: s.metrics,
	})
}

// openLines listens for direct lines, and publishes their address to the others.
func (r *relaying) openLines() error {
	if r.lines == nil {
		return nil
	}
	listener, err := net.Listen("tcp", r.settings.Relay)
	if err != nil {
		return fmt.Errorf("cluster.relay: %w", err)
	}
	r.lines.Start(listener, r.Take)
	address := r.settings.RelayAdvertise
	if address == "" {
		host, _, _ := net.SplitHostPort(r.settings.Relay) // it was checked
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		address = net.JoinHostPort(host, port)
	}
	return r.members.Note(directNote, address)
}

// draw has lines with all bridges that listen for them, as far as messages for them
// go to their own process: messages for sessions that another bridge serves in its
// place go over NATS, also while it is back and has not taken them over.
func (r *relaying) draw(peers []relay.Member) {
	if r.lines == nil {
		return
	}
	var wanted []direct.Peer
	for _, m := range r.members.Members() {
		own := func(p relay.Member) bool { return p.Node == relay.Node(m.Node) && !p.Adopted && !p.Waits }
		if address := m.Notes[directNote]; address != "" && slices.ContainsFunc(peers, own) {
			wanted = append(wanted, direct.Peer{Node: direct.Node(m.Node), Address: address})
		}
	}
	r.lines.Reconcile(wanted)
}

// closeLines ends all lines. Messages still to be sent go over NATS.
func (r *relaying) closeLines() {
	if r.lines != nil {
		r.lines.Close()
	}
}

// unanswered is the time after which messages to a bridge that accepts none of them do
// not flow.
const unanswered = 3 * time.Second

// show lists the lines to the other bridges; none for a bridge that works alone.
func (r *relaying) show() []status.Peer {
	if r == nil {
		return nil
	}
	lines := make(map[string]direct.Status)
	if r.lines != nil {
		for _, l := range r.lines.Status() {
			lines[l.Bridge] = l
		}
	}
	var all []status.Peer
	for _, p := range r.Peers() {
		shown := status.Peer{BridgeID: p.ID, Epoch: p.Epoch, By: status.OverNATS, ServedBy: r.estates.ServedBy(p.ID), Open: p.Open && p.Lag < unanswered, Queued: p.Queued, Dropped: p.Dropped}
		if l, wanted := lines[p.ID]; wanted {
			shown.Address, shown.Why = l.Address, l.Why
			if l.Direct {
				shown.By, shown.Since = status.Direct, l.Since.UnixMilli()
			}
		}
		all = append(all, shown)
	}
	return all
}
