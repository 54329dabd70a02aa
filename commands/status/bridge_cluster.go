package status

import (
	"context"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var bridgeCluster = commands.Spec{
	Name:    "bridge.cluster",
	Summary: "Show where the bridge keeps its state, which bridges share it, and how they are.",
	Effect:  commands.Read,
	Action:  "bridge:cluster",
	Example: `{}`,
}

// ClusterParams are the params of bridge.cluster: none.
type ClusterParams struct{}

// A Cluster is the place of a bridge in its cluster, as it knows it.
type Cluster struct {
	Store    Store    `json:"store" enum:"embedded,nats" doc:"place of the state: in NATS within this process, or in NATS servers"`
	Servers  []string `json:"servers,omitempty" doc:"addresses of the NATS servers, without passwords, or of the bridges that keep the state; absent if the bridge is alone"`
	Replicas int      `json:"replicas" doc:"copies of the state that NATS keeps"`
	Standby  bool     `json:"standby" doc:"true if a bridge that stands by can take over"`
	Epoch    uint64   `json:"epoch,omitempty" doc:"number of this run of the bridge, higher with every start; absent if the bridge is alone"`
	Working  string   `json:"working" enum:"one,all" doc:"number of bridges of the cluster that work at a time"`
}

// A Store is the place of the state of a bridge.
type Store string

// The places for a bridge's state.
const (
	Embedded Store = "embedded"
	NATS     Store = "nats"
)

// ClusterResult is the result of bridge.cluster.
type ClusterResult struct {
	BridgeID string `json:"bridge_id" doc:"id of the bridge that answers"`
	Cluster
	Members []cluster.Member `json:"members" doc:"the living bridges that share the state, this one too, the oldest first; the oldest does what exactly one does"`
	Absent  []cluster.Absent `json:"absent,omitempty" doc:"bridges that have ended and keep a copy of the state, which counts as missing until they come back or are removed (bridge.remove); absent if there are none"`
	Peers   []Peer           `json:"peers,omitempty" doc:"way of messages to the other bridges that work, or are served by others; absent if the bridge works alone"`
	Parts   []Part           `json:"parts" doc:"needs without which the bridge does not work"`
}

// A Peer is another bridge, as messages are relayed to it.
type Peer struct {
	BridgeID string `json:"bridge_id" doc:"id of the other bridge"`
	Epoch    uint64 `json:"epoch,omitempty" doc:"number of its run; absent if none is known"`
	By       Way    `json:"by" enum:"direct,nats" doc:"way of messages to it: over a connection of their own, or over NATS"`
	Address  string `json:"address,omitempty" doc:"address at which it listens for direct connections, HOST:PORT; absent if one of the two bridges does not"`
	Since    int64  `json:"since,omitempty" doc:"time at which the direct connection was made, Unix milliseconds; absent if there is none"`
	Why      string `json:"why,omitempty" doc:"reason why there is no direct connection although both listen; absent if there is one"`
	Open     bool   `json:"open" doc:"true if messages flow, or there are none: it has accepted something in the last three seconds of those in which something waited"`
	ServedBy string `json:"served_by,omitempty" doc:"id of the bridge that serves its sessions since it has ended, and gets their messages; absent if it serves them itself, or nobody does yet"`
	Queued   int    `json:"queued_bytes" doc:"bytes that it has not accepted"`
	Dropped  uint64 `json:"dropped" doc:"messages of QoS 0 that it did not get because it does not keep up"`
}

// A Way is the route of messages to another bridge.
type Way string

// The ways to another bridge.
const (
	Direct   Way = "direct"
	OverNATS Way = "nats"
)

// A Part is one thing that a bridge cannot work without.
type Part struct {
	Name string `json:"name" doc:"name of the part: lease, nats, store, claims, audit, mqtt, disk, relay"`
	OK   bool   `json:"ok" doc:"true if it works"`
	Why  string `json:"why,omitempty" doc:"reason why it does not; absent if it does"`
}

// A Check returns the reason why a part does not work, or nil.
type Check struct {
	Name  string
	Check func() error
}

// ShowCluster shows the bridge's place in its cluster.
func (s *Service) ShowCluster(context.Context, *commands.Call, ClusterParams) (ClusterResult, error) {
	result := ClusterResult{BridgeID: s.BridgeID, Cluster: s.Cluster, Members: []cluster.Member{}, Parts: []Part{}}
	if s.Members != nil {
		result.Members = s.Members()
	}
	if s.Absent != nil {
		result.Absent = s.Absent()
	}
	if s.Peers != nil {
		result.Peers = s.Peers()
	}
	for _, c := range s.Checks {
		part := Part{Name: c.Name, OK: true}
		if err := c.Check(); err != nil {
			part.OK, part.Why = false, protocol.AsError(err).Message
		}
		result.Parts = append(result.Parts, part)
	}
	return result, nil
}
