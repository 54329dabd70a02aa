package app

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands/status"
	"github.com/aibridge/aibridge/connect/link"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/security"
)

// linkDoor marks the authentication and the connections of links.
const linkDoor = "link"

// newLinks makes the links to other brokers, which do not run yet.
func newLinks(s *state, d *domains, ring *security.Keyring) *link.Service {
	mark := s.config.ID + "." + ring.Fingerprint()
	if s.Members.Shared() { // the bridges of a cluster share the pepper, and are one place for messages
		mark = "cluster." + ring.Fingerprint()
	}
	var holder link.Holder
	if d.relay != nil {
		holder = linkHolder{s, d.relay}
	}
	service := link.New(link.Options{
		Links: append(slices.Clone(s.config.Links), centreLinks(&s.config.Sites.Join)...), Records: store.NewTable[link.Record](s.Store, "link"),
		Authenticate: func(ctx context.Context, key string) (*protocol.Principal, error) {
			return d.identities.authenticator.Header(ctx, linkDoor, http.Header{}, key)
		},
		Root: s.topics.Root(), BridgeID: s.config.ID, Mark: mark, Shared: s.Members.Shared(), Holder: holder,
		MaxPacket: s.config.Limits.Payload + roomAroundPayload, ReceiveMaximum: s.config.MQTT.ReceiveMaximum,
		Registerer: s.metrics, Log: s.log,
	})
	if d.relay != nil {
		d.relay.errands.does[showLinks] = func(context.Context, json.RawMessage) (any, error) { return service.Shows(), nil }
	}
	return service
}

// showLinks is the errand of telling how the links are.
const showLinks = "link.show"

// A linkHolder is the oldest bridge of the cluster, which runs the links.
type linkHolder struct {
	*state
	relay *relaying
}

// Elsewhere implements [link.Holder].
func (h linkHolder) Elsewhere() string {
	n, elsewhere := h.carrier("")
	if !elsewhere {
		return ""
	}
	return n.ID
}

// Shows implements [link.Holder].
func (h linkHolder) Shows(ctx context.Context) (all []link.GetResult, err error) {
	n, elsewhere := h.carrier("")
	if !elsewhere {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "this bridge has just become the oldest")
	}
	ctx, cancel := context.WithTimeout(ctx, askedFor)
	defer cancel()
	err = h.relay.errands.have(ctx, n, showLinks, struct{}{}, &all)
	return all, err
}

// startLinks has the links run, on one bridge of a cluster.
func startLinks(s *state, d *domains, server *broker.Broker) {
	d.links.Broker = linkBroker{server}
	s.life.Run("links to other brokers", s.once(d.links.Run))
}

// countLinks sums links up for bridge.status; nil for none.
func countLinks(all []link.GetResult) *status.Links {
	if len(all) == 0 {
		return nil
	}
	sum := &status.Links{Bridge: all[0].Bridge, Total: len(all)}
	for _, l := range all {
		if l.State == link.Connected {
			sum.Connected++
		}
		sum.Waiting += l.Waiting
	}
	return sum
}

// waitingForLinks bounds the queues for remote brokers, by their links' settings.
func waitingForLinks(s *state) func(broker.SessionID) *broker.Waiting {
	if len(s.config.Links) == 0 {
		return nil
	}
	rooms := make(map[string]*broker.Waiting, len(s.config.Links))
	for _, c := range s.config.Links {
		rooms[link.LocalID(c.Name)] = &broker.Waiting{Messages: c.Messages, Bytes: c.Bytes, Upgrade: c.UpgradeQoS}
	}
	return func(id broker.SessionID) *broker.Waiting { return rooms[id.Client] }
}

// A linkBroker is the bridge's own broker as links see it.
type linkBroker struct{ *broker.Broker }

// Dial implements [link.Broker].
func (b linkBroker) Dial(who grant.Grant) (net.Conn, error) { return b.Inside(linkDoor, who) }

// Session implements [link.Broker].
func (b linkBroker) Session(space protocol.SpaceID, client string) (link.Session, bool) {
	info, ok := b.Broker.Session(broker.SessionID{Space: space, Client: client})
	s := link.Session{Inflight: info.Inflight, Queued: info.Queued, Bytes: info.QueuedBytes, Dropped: info.Dropped}
	for _, sub := range info.Subscriptions {
		s.Filters = append(s.Filters, sub.Filter)
	}
	return s, ok
}

// End implements [link.Broker].
func (b linkBroker) End(space protocol.SpaceID, client string) {
	b.Kick(broker.SessionID{Space: space, Client: client}, true)
}

// ForgetReceived implements [link.Broker].
func (b linkBroker) ForgetReceived(space protocol.SpaceID, client string) {
	b.Broker.ForgetReceived(broker.SessionID{Space: space, Client: client})
}
