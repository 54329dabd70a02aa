package cluster

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// A Node is one process of a bridge, from its start to its end.
type Node struct {
	ID    string `json:"id" doc:"id of the bridge"`
	Epoch uint64 `json:"epoch" doc:"number of its run, higher with every start"`
}

func (n Node) String() string { return fmt.Sprintf("%s/%d", n.ID, n.Epoch) }

// ParseNode parses the format of [Node.String].
func ParseNode(text string) (Node, error) {
	id, number, ok := strings.Cut(text, "/")
	epoch, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || id == "" {
		return Node{}, fmt.Errorf("cluster: %q is not ID/EPOCH", text)
	}
	return Node{id, epoch}, nil
}

// Working is the number of bridges of a cluster that work at a time.
type Working string

// With One, one bridge works and the others stand by; with All, all of them work.
const (
	One Working = "one"
	All Working = "all"
)

// A State is the stage of a node's life.
type State string

// The states of a node. Nodes that have left or were declared dead are not members any
// more.
const (
	Standby  State = "standby"  // it waits to become the oldest
	Serving  State = "working"  // it serves clients
	Draining State = "draining" // it takes no new clients, and sends its own elsewhere
	Left     State = "left"     // it has ended
	Dead     State = "dead"     // others have declared it dead
)

// A Member is a node as its record shows it.
type Member struct {
	Node
	State     State             `json:"state" enum:"standby,working,draining" doc:"purpose"`
	Ready     bool              `json:"ready" doc:"true if it can do all of its work, by its own word"`
	Why       string            `json:"why,omitempty" doc:"reason why it cannot; absent if it can"`
	Version   string            `json:"version" doc:"version of the program"`
	Wire      int               `json:"wire" doc:"version of what bridges say to each other"`
	Started   int64             `json:"started_at" doc:"time at which it was started, by its own clock, Unix milliseconds"`
	Addresses map[string]string `json:"addresses,omitempty" doc:"addresses it listens on, HOST:PORT by listener: mqtt, mqtts, http, ws; absent for a standby"`
	Keeps     string            `json:"keeps,omitempty" doc:"its address in cluster.join, under which it keeps a copy of the state; absent if it keeps none"`
	Labels    map[string]string `json:"labels,omitempty" doc:"description by its operator"`
	Notes     map[string]string `json:"notes,omitempty" doc:"versions of parts that they tell those of others, by part"`
	Joined    uint64            `json:"joined" doc:"place in the order of joining: the lowest is the oldest"`
	Revision  uint64            `json:"revision" doc:"of its record"`
	Age       int64             `json:"age_ms" doc:"time since its record was renewed, as this bridge has heard, in milliseconds"`
}

// clone shares nothing with m.
func (m Member) clone() Member {
	m.Addresses, m.Labels, m.Notes = maps.Clone(m.Addresses), maps.Clone(m.Labels), maps.Clone(m.Notes)
	return m
}

// A Change is an event of the life of another node or of this one.
type Change struct {
	Kind   ChangeKind
	Member Member // its present record, or its last one
}

// ChangeKind is the kind of a [Change].
type ChangeKind int

// The kinds of changes.
const (
	Joined   ChangeKind = iota + 1 // a new node
	Told                           // its record has changed
	Departed                       // it has ended in order
	Declared                       // it was declared dead: the verdict
)

func (k ChangeKind) String() string {
	return [...]string{"", "joined", "told", "departed", "declared dead"}[k]
}

// Times of the renewal and expiry of records. None is measured by the clock of a NATS
// server, and no record expires by a timer: while NATS elects a leader, which takes
// seconds, no renewal is confirmed and no silence counts.
const (
	RenewEvery  = 300 * time.Millisecond  // between two renewals
	SilentAfter = 3 * time.Second         // of silence, measured between renewals of the observer, a node counts as dead
	UnsureAfter = 2500 * time.Millisecond // without a confirmed renewal, a node acknowledges nothing durable
	LonelyAfter = 12 * time.Second        // without any NATS server, a node ends if there were others
)
