package drill

import (
	"cmp"
	"fmt"
	"slices"
)

// A Listener is a client that subscribes to all streams.
type Listener struct {
	Name  string `json:"name"`
	Kept  bool   `json:"kept"`            // its session outlives its connections
	Group string `json:"group,omitempty"` // of a shared subscription
}

// A Breach is a promise that was not kept.
type Breach struct {
	Promise Promise `json:"promise"`
	Round   int     `json:"round"`
	Fault   Fault   `json:"fault"`
	Text    string  `json:"text"`
}

// String is one line of a report.
func (b Breach) String() string {
	return fmt.Sprintf("round %d, %s: %s: %s", b.Round, b.Fault, b.Promise, b.Text)
}

// A Judgement is the result of [Judge].
type Judgement struct {
	Rounds   []Tally  `json:"rounds"`
	Breaches []Breach `json:"breaches"`
}

// Judge checks every promise in a history. It depends on the history and the listeners
// alone.
func Judge(h History, listeners []Listener) Judgement {
	j := newJudge(h)
	for _, l := range listeners {
		if l.Group == "" {
			j.listener(l)
		}
	}
	j.groups(listeners)
	j.foreign()
	j.connections()
	j.calls()
	j.works()
	j.stored()
	j.wills()
	j.readiness()
	j.service()
	slices.SortStableFunc(j.breaches, func(a, b Breach) int { return cmp.Compare(a.Round, b.Round) })
	return Judgement{Rounds: j.tallies(), Breaches: j.breaches}
}

// A judge is the index of a history for the checks.
type judge struct {
	history  History
	rounds   []*round
	roundOf  []int // of each event, an index into rounds
	messages map[messageKey]*message
	order    []*message // in the order of first sending
	clients  map[string]*clientView
	breaches []Breach
}

type messageKey struct {
	stream string
	number int
}

// A round holds the events until the beginning of the next one. Events before the first
// round belong to it.
type round struct {
	tally  Tally
	begun  int // index of its event
	fault  int // index of the beginning of its fault, the history's end without one
	healed int
	drain  int
}

// A message is a message of a stream, with the observations of its publisher.
type message struct {
	messageKey
	publisher  string
	qos        byte
	connection int // number of the connection of the first sending
	sent       int // index of the event
	sentLast   int // index of the last such event
	times      int // that it was sent
	at         string
	elsewhere  bool // it was sent again, at another node
	acked      int  // index, -1 for never
	ackedBy    string
	refused    bool
}

// A clientView holds the events of a client.
type clientView struct {
	opened     []int // indexes
	closed     []int
	subscribed []int
	moved      []int
	got        map[messageKey][]int
	streams    map[string][]int // indexes of first deliveries, by stream
}

func newJudge(h History) *judge {
	j := &judge{
		history: h, rounds: []*round{{fault: len(h), healed: len(h), drain: len(h)}}, roundOf: make([]int, len(h)),
		messages: make(map[messageKey]*message), clients: make(map[string]*clientView),
	}
	for i, e := range h {
		j.bound(i, e)
		j.roundOf[i] = len(j.rounds) - 1
		j.note(i, e)
	}
	return j
}

// bound notes where rounds and their parts begin.
func (j *judge) bound(i int, e Event) {
	last := j.rounds[len(j.rounds)-1]
	switch e.Kind {
	case RoundBegun:
		if last.tally.Round != 0 {
			last = &round{fault: len(j.history), healed: len(j.history), drain: len(j.history)}
			j.rounds = append(j.rounds, last)
		}
		last.begun = i
		last.tally.Round, last.tally.Fault, last.tally.Rounds = e.Number, e.Fault, 1
	case FaultBegun:
		last.fault = i
		last.tally.Node = e.Node
	case FaultEnded:
		last.healed = i
	case LoadEnded:
		last.drain = i
	}
}

func (j *judge) note(i int, e Event) {
	key := messageKey{e.Stream, e.Number}
	switch e.Kind {
	case Sent:
		m := j.messages[key]
		if m == nil {
			m = &message{messageKey: key, publisher: e.Client, qos: e.QoS, connection: e.Connection, at: e.Node, sent: i, acked: -1}
			j.messages[key] = m
			j.order = append(j.order, m)
		}
		m.times++
		m.sentLast = i
		m.elsewhere = m.elsewhere || e.Node != m.at
	case Acked:
		if m := j.messages[key]; m != nil && m.acked < 0 {
			m.acked, m.ackedBy = i, e.Node
		}
	case Refused:
		if m := j.messages[key]; m != nil {
			m.refused = true
		}
	case Opened:
		c := j.client(e.Client)
		c.opened = append(c.opened, i)
	case Closed:
		c := j.client(e.Client)
		c.closed = append(c.closed, i)
	case Subscribed:
		c := j.client(e.Client)
		c.subscribed = append(c.subscribed, i)
	case Moved:
		c := j.client(e.Client)
		c.moved = append(c.moved, i)
	case Got:
		c := j.client(e.Client)
		if len(c.got[key]) == 0 {
			c.streams[e.Stream] = append(c.streams[e.Stream], i)
		}
		c.got[key] = append(c.got[key], i)
	}
}

func (j *judge) client(name string) *clientView {
	c := j.clients[name]
	if c == nil {
		c = &clientView{got: make(map[messageKey][]int), streams: make(map[string][]int)}
		j.clients[name] = c
	}
	return c
}

// at is the round of an event.
func (j *judge) at(index int) *round { return j.rounds[j.roundOf[index]] }

// breach notes that a promise was broken in the round of an event.
func (j *judge) breach(p Promise, index int, format string, args ...any) {
	r := j.at(index)
	j.breaches = append(j.breaches, Breach{Promise: p, Round: r.tally.Round, Fault: r.tally.Fault, Text: fmt.Sprintf(format, args...)})
}

// tallies are the counts of all rounds.
func (j *judge) tallies() []Tally {
	for _, m := range j.order {
		t := &j.at(m.sent).tally
		if m.qos == 0 {
			t.SentQoS0++
			continue
		}
		t.Sent++
		if m.acked >= 0 {
			t.Acknowledged++
		} else if m.refused {
			t.Refused++
		}
	}
	list := make([]Tally, 0, len(j.rounds))
	for _, r := range j.rounds {
		list = append(list, r.tally)
	}
	return list
}
