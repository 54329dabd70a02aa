package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/commands/status"
	"github.com/aibridge/aibridge/protocol"
)

// A draining is the orderly end of a bridge, by a signal or by a command.
type draining struct {
	asked chan struct{} // closed when the bridge is to end

	mu      sync.Mutex
	decided bool
	window  time.Duration // over which clients are sent to other bridges at most
}

func newDraining(c *cluster.Settings) *draining {
	return &draining{asked: make(chan struct{}), window: time.Duration(c.Window) * time.Second}
}

// over is the time over which clients are sent away.
func (d *draining) over() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.window
}

// extra is the time that the bridge may take to end beyond the default.
func (d *draining) extra() time.Duration {
	return max(d.over()-time.Duration(cluster.DefaultSettings().Window)*time.Second, 0)
}

// sendClientsAway has the clients of a bridge that stops go to others of its
// cluster that work. Where there are none the broker just closes. It leaves the
// parts that stop after it ten seconds, or two thirds of the time if that is less.
func sendClientsAway(s *state, server *broker.Broker) func(context.Context) error {
	return func(ctx context.Context) error {
		others := workingBeside(s.Members)
		if len(others) == 0 {
			return nil
		}
		window := s.draining.over()
		if deadline, ok := ctx.Deadline(); ok {
			left := time.Until(deadline)
			window = min(window, max(left-10*time.Second, left/3))
		}
		turn := 0
		server.Drain(ctx, window, func(listener string) string {
			turn++
			return references(others, listener, turn)
		})
		return nil
	}
}

// workingBeside are the other members that serve clients.
func workingBeside(m *cluster.Membership) []cluster.Member {
	return membersBeside(m, func(o *cluster.Member) bool { return o.State == cluster.Serving && o.Ready })
}

// successors are the other members that take over the clients of this bridge once
// it has ended.
func successors(m *cluster.Membership) []cluster.Member {
	if m.Working() == cluster.One {
		return membersBeside(m, func(o *cluster.Member) bool { return o.State == cluster.Standby })
	}
	return workingBeside(m)
}

func membersBeside(m *cluster.Membership, does func(*cluster.Member) bool) []cluster.Member {
	return slices.DeleteFunc(m.Members(), func(o cluster.Member) bool { return o.ID == m.Self().ID || !does(&o) })
}

// references are the addresses of a listener on other bridges, as Server
// Reference has them, beginning with another one at each turn: clients take the
// first. An address of all interfaces is of no use to clients elsewhere.
func references(others []cluster.Member, listener string, turn int) string {
	var list []string
	for i := range others {
		address := others[(i+turn)%len(others)].Addresses[listener]
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

// A drainer has this bridge end, and others of its cluster.
type drainer struct {
	s      *state
	broker *broker.Broker
	shared *relaying // nil where one bridge works at a time
}

// drainErrand is the errand of ending.
const drainErrand = "bridge.drain"

// A drainOrder is the order to a bridge that is to end.
type drainOrder struct {
	By     string             `json:"by"`
	Params status.DrainParams `json:"params"`
}

func newDrainer(s *state, server *broker.Broker, shared *relaying) *drainer {
	d := &drainer{s, server, shared}
	if shared != nil {
		shared.errands.does[drainErrand] = func(ctx context.Context, with json.RawMessage) (any, error) {
			var order drainOrder
			if err := json.Unmarshal(with, &order); err != nil {
				return nil, err
			}
			return d.here(ctx, order.By, order.Params)
		}
	}
	return d
}

// Drain implements [status.Drainer].
func (d *drainer) Drain(ctx context.Context, by string, p status.DrainParams) (result status.DrainResult, err error) {
	all := d.s.Members.Members()
	at := slices.IndexFunc(all, func(m cluster.Member) bool { return m.ID == p.BridgeID })
	switch {
	case at < 0:
		return result, protocol.Errorf(protocol.NotFound, "the cluster has no living bridge %q, but %s", p.BridgeID, idsOf(all)).With("bridge_id", p.BridgeID)
	case all[at].ID == d.s.Members.Self().ID:
		return d.here(ctx, by, p)
	case all[at].State == cluster.Draining:
		return status.DrainResult{Node: all[at].Node, Already: true, Others: []string{}}, nil
	case all[at].State == cluster.Standby:
		return result, protocol.Errorf(protocol.InvalidState, "bridge %q is a standby: it has no clients and nothing to hand over; stop its process", p.BridgeID).With("bridge_id", p.BridgeID)
	case d.shared == nil:
		return result, protocol.Errorf(protocol.InvalidState, "bridge %q takes over from this one, and works soon: ask it then", p.BridgeID).With("bridge_id", p.BridgeID)
	}
	err = d.shared.errands.have(ctx, all[at].Node, drainErrand, drainOrder{by, p}, &result)
	return result, err
}

// here has this bridge end, unless no other would serve its clients. Of bridges that are drained at
// the same time one stays: each tells the others that it drains before it looks for the remaining
// ones.
func (d *drainer) here(ctx context.Context, by string, p status.DrainParams) (result status.DrainResult, err error) {
	m, self := d.s.Members, d.s.Members.Self()
	if !m.Shared() {
		return result, protocol.Errorf(protocol.InvalidState, "bridge %q is in no cluster, and nobody would serve its clients: stop its process if that is meant", self.ID)
	}
	if !d.s.draining.decide() {
		return status.DrainResult{Node: self, Already: true, Others: []string{}}, nil
	}
	m.Tell(func(r *cluster.Record) { r.State = cluster.Draining })
	err = m.Catchup(ctx)
	others := successors(m)
	if err == nil {
		err = d.majorityStays()
	}
	if err == nil && len(others) == 0 {
		err = protocol.Errorf(protocol.InvalidState, "bridge %q is the only one that works, and nobody would serve its clients: start another one, or stop the process if that is meant", self.ID)
	}
	if err != nil {
		m.Tell(func(r *cluster.Record) { r.State = cluster.Serving })
		d.s.draining.revoke()
		return result, err
	}
	result = status.DrainResult{Node: self, Others: make([]string, 0, len(others))}
	for _, o := range others {
		result.Others = append(result.Others, o.ID)
	}
	for range d.broker.Clients() {
		result.Clients++
	}
	result.Window = int(d.s.draining.begin(p.Window) / time.Second)
	d.s.log.Info("this bridge was asked to end, and drains", "by", by, "clients", result.Clients, "others", result.Others, "window", d.s.draining.over())
	return result, nil
}

// majorityStays fails if the state could not be written any more without this
// bridge: it keeps a copy, and of the others too few do.
func (d *drainer) majorityStays() error {
	c := &d.s.config.Cluster
	if c.Keeps() == "" {
		return nil
	}
	away := cluster.Lacking(c.Join, d.s.Members.Members()) // and this one
	if 2*len(away) < len(c.Join) {
		return nil
	}
	away = slices.DeleteFunc(away, func(address string) bool { return address == c.Keeps() })
	return protocol.Errorf(protocol.InvalidState, "without bridge %q most of the %d bridges of cluster.join would be away, and nothing could be stored: start %s first, or stop the process if that is meant",
		d.s.Members.Self().ID, len(c.Join), strings.Join(away, ", "))
}

// await calls then once the bridge was asked to end, unless ctx ends before.
func (d *draining) await(ctx context.Context, then func()) {
	select {
	case <-d.asked:
		then()
	case <-ctx.Done():
	}
}

// decide decides that the bridge ends, and reports whether that is new.
func (d *draining) decide() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.decided
	d.decided = true
	return !was
}

// revoke takes the decision back.
func (d *draining) revoke() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.decided = false
}

// begin has the bridge end, as decided, and returns over how long.
func (d *draining) begin(window *int) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if window != nil {
		d.window = time.Duration(*window) * time.Second
	}
	close(d.asked)
	return d.window
}

// idsOf names members.
func idsOf(all []cluster.Member) string {
	ids := make([]string, len(all))
	for i, m := range all {
		ids[i] = fmt.Sprintf("%q", m.ID)
	}
	return strings.Join(ids, ", ")
}
