package bench

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"time"
)

// A Shape is the pattern of publishers and receivers.
type Shape string

// The shapes of load.
const (
	// Flow is publishers and subscribers: message rate counts deliveries.
	Flow Shape = "flow"
	// Ask is requesters and one responder, another client: rate counts replies.
	Ask Shape = "ask"
	// AskInside is requesters that the broker process answers itself.
	AskInside Shape = "ask-inside"
	// Idle is clients with one subscription each that publish nothing: the rate counts
	// connections.
	Idle Shape = "idle"
)

// A Scenario is one kind of load.
type Scenario struct {
	Name  string
	Shape Shape
	// Base is the scenario of the first broker to which ratios refer, if it is not this
	// one.
	Base string

	Publishers  int // or requesters
	Agents      int // that are invoked, each by its share of the requesters; 0 means one
	Subscribers int // or idle clients; ignored by the other shapes
	// Pairs gives each publisher a topic that one subscriber has subscribed.
	// Otherwise several publishers have a topic each and every subscriber all
	// of them, by a wildcard.
	Pairs bool

	Over Over // the transport; brokers that do not serve it are left out

	QoS     byte
	Payload int // bytes, at least 64 for a flow and 128 for questions
	// Window is the number of messages that a publisher may have unacknowledged, or a
	// requester unanswered; at QoS 0, without acknowledgements, the number of messages
	// of each publisher under way to subscribers, so that a broker need not drop any.
	Window int
	Batch  int // packets in one write, where the window does not decide it

	// Rate, of all publishers together in messages a second, paces the load;
	// 0 asks for all that goes.
	Rate float64
	// ReceiveMaximum, if not 0, is announced by the clients that receive.
	// MQTT 5 only.
	ReceiveMaximum uint16
}

// Scenarios are the loads this project is held against, in the order of the
// printed tables.
func Scenarios() []Scenario {
	fanIn := Scenario{Name: "fan-in", Shape: Flow, Publishers: 50, Subscribers: 1, Payload: 64, Window: 100, Batch: 1}
	pairs := Scenario{Name: "pairs", Shape: Flow, Publishers: 50, Subscribers: 50, Pairs: true, QoS: 1, Payload: 256, Window: 20}
	fanOut := Scenario{Name: "fan-out", Shape: Flow, Publishers: 1, Subscribers: 200, Payload: 256, Window: 100, Batch: 1}
	ask := Scenario{Name: "request-reply", Shape: Ask, Publishers: 50, QoS: 1, Payload: 512, Window: 1}
	inside := ask
	inside.Shape, inside.Name = AskInside, "request-reply-inside"

	with := func(s Scenario, suffix string, change func(*Scenario)) Scenario {
		s.Name += suffix
		change(&s)
		return s
	}
	window16 := func(s *Scenario) { s.Window = 16 }
	idle := Scenario{Name: "idle", Shape: Idle, Subscribers: 5000}
	all := []Scenario{
		fanIn,
		with(fanIn, "-10", func(s *Scenario) { s.Batch = 10 }),
		pairs,
		with(pairs, "-receive-maximum", func(s *Scenario) { s.ReceiveMaximum = 20 }),
		with(pairs, "-qos2", func(s *Scenario) { s.QoS = 2 }),
		fanOut,
		ask,
		with(ask, "-16", window16),
		with(inside, "-16", func(s *Scenario) { s.Window, s.Base = 16, "request-reply-16" }),
		idle,
		with(fanIn, "-paced", func(s *Scenario) { s.Rate = 10_000 }),
		with(pairs, "-paced", func(s *Scenario) { s.Rate = 5_000 }),
		with(fanOut, "-paced", func(s *Scenario) { s.Rate = 50 }),
		with(ask, "-paced", func(s *Scenario) { s.Rate = 2_000; s.Window = 16 }),
	}
	for _, over := range []Over{OverTLS, OverWebSocket} {
		for _, s := range []Scenario{pairs, ask, idle} {
			all = append(all, with(s, "-"+string(over), func(s *Scenario) { s.Over = over }))
		}
	}
	return all
}

// Pick returns the scenarios whose names match the patterns ([path.Match]:
// "fan-in", "fan-*"), in the order of the patterns. No patterns mean all
// scenarios.
func Pick(patterns ...string) ([]Scenario, error) {
	all := Scenarios()
	if len(patterns) == 0 {
		return all, nil
	}
	var picked []Scenario
	for _, pattern := range patterns {
		before := len(picked)
		for _, s := range all {
			if match, err := path.Match(pattern, s.Name); err == nil && match {
				picked = append(picked, s)
			}
		}
		if len(picked) == before {
			known := make([]string, len(all))
			for i, s := range all {
				known[i] = s.Name
			}
			return nil, fmt.Errorf("there is no scenario %q; there are %v", pattern, known)
		}
	}
	return picked, nil
}

// check refuses a bad scenario.
func (s Scenario) check() error {
	bad := func(what string) error { return fmt.Errorf("scenario %q: %s", s.Name, what) }
	if !slices.Contains([]Shape{Flow, Ask, AskInside, Idle}, s.Shape) {
		return bad("no such shape")
	}
	if s.Shape == Idle {
		if s.Subscribers < 1 || s.Subscribers > maxConnections {
			return bad("the number of clients is out of range")
		}
		return nil
	}
	smallest := minFlowPayload
	if s.Shape != Flow {
		smallest = minAskPayload
	}
	switch {
	case s.Publishers < 1 || s.Shape == Flow && s.Subscribers < 1 || s.Publishers+s.Subscribers > maxConnections:
		return bad("the number of clients is out of range")
	case s.Pairs && s.Publishers != s.Subscribers:
		return bad("pairs need as many subscribers as publishers")
	case s.QoS > 2 || s.Shape != Flow && s.QoS > 1:
		return bad("this QoS is not measured")
	case s.Payload < smallest || s.Payload > largestPayload:
		return bad("the payload is out of range")
	case s.Window < 1 || s.Window > 1000 || s.Batch < 0 || s.Batch > 100 || s.Rate < 0 || s.Rate > 1e7:
		return bad("window, batch or rate are out of range")
	case s.Rate > 0 && s.Over == OverHTTP2:
		return bad("calls over HTTP/2 are not paced")
	}
	return nil
}

// result is the beginning of a result of the scenario.
func (s Scenario) result() Result {
	return Result{Scenario: s.Name, Base: cmp.Or(s.Base, s.Name)}
}

const (
	maxConnections = 20_000
	minFlowPayload = 64
	minAskPayload  = 128
	largestPayload = 64 << 10
)

// Topics of questions and answers: each requester has one of either.
const (
	askPrefix   = "bench/ask/"
	replyPrefix = "bench/reply/"
)

// Options configure [MQTT].
type Options struct {
	Peers     []Peer     // the brokers; ratios refer to the first
	Scenarios []Scenario // default [Scenarios]
	Rounds    int        // of everything, the brokers in turn; default 3

	Warmup   time.Duration // before it counts, default 500 ms
	Duration time.Duration // that counts, default 3 s
	// Messages is the greatest number of messages of one run, beside its duration; 0
	// for no limit. At the limit the run is over, even during the warm-up.
	Messages int64
	// Quiet, if not 0, is the greatest load by other processes during a valid run, in
	// processors: 0.2 is a fifth of one. Runs wait up to a minute for it, and are
	// repeated at most twice if the load was higher.
	Quiet float64
	// Patience is the time that a run may go without any progress before it counts
	// as stalled, default 2 s.
	Patience time.Duration

	// Model is the provider of bridges in scenarios [OverLLM], of [KindModel].
	Model *Peer

	// Progress is called with one line for each run. Optional.
	Progress func(line string)
}

func (o *Options) setDefaults() error {
	if len(o.Peers) == 0 {
		return fmt.Errorf("bench: no brokers to measure")
	}
	if len(o.Scenarios) == 0 {
		o.Scenarios = Scenarios()
	}
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	if o.Warmup == 0 {
		o.Warmup = 500 * time.Millisecond
	}
	if o.Duration == 0 {
		o.Duration = 3 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = 2 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Rounds < 1 || o.Rounds > 1000 || o.Duration < 0 || o.Duration > 10*time.Minute || o.Warmup < 0 || o.Warmup > time.Minute {
		return fmt.Errorf("bench: rounds, warm-up or duration are out of range")
	}
	for _, s := range o.Scenarios {
		if err := s.check(); err != nil {
			return err
		}
	}
	return nil
}
