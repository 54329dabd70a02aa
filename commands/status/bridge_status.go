package status

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var bridgeStatus = commands.Spec{
	Name:    "bridge.status",
	Summary: "Show how the bridge is and what went through it during the last hour.",
	Effect:  commands.Read,
	Action:  "bridge:status",
	Example: `{}`,
}

// Params are the params of bridge.status: none.
type Params struct{}

// Result is the result of bridge.status.
type Result struct {
	BridgeID  string    `json:"bridge_id" doc:"id of the bridge"`
	Version   string    `json:"version" doc:"version of the program"`
	Protocol  string    `json:"protocol" doc:"version of the protocol"`
	StartedAt int64     `json:"started_at" doc:"time at which the bridge was started, Unix milliseconds"`
	Ready     bool      `json:"ready" doc:"true if the bridge can do its work"`
	Why       string    `json:"why,omitempty" doc:"reason why it cannot; absent if it can"`
	Links     *Links    `json:"links,omitempty" doc:"links to other MQTT brokers, those of the caller's space; absent without any"`
	Centre    *Centre   `json:"centre,omitempty" doc:"bridge that this one is a site of; absent without any, and in a cluster at bridges that are not connected to it"`
	Readings  []Reading `json:"readings" doc:"amounts that went through it"`
}

// Centre is the bridge that this one is a site of.
type Centre struct {
	Site     string   `json:"site" doc:"name of this bridge there"`
	URL      string   `json:"url" doc:"address of the centre"`
	State    string   `json:"state" doc:"connecting, connected or down"`
	Since    int64    `json:"since" doc:"time at which it came into this state, Unix milliseconds"`
	Problem  string   `json:"problem,omitempty" doc:"reason that it is down; absent while it is connected"`
	Agents   int      `json:"agents" doc:"agents that the centre has been told of"`
	NotShown []string `json:"not_shown,omitempty" doc:"names of what cannot be shown there, each with the reason; absent if all is"`
}

// Links are the links to other MQTT brokers in figures; link.list shows them.
type Links struct {
	Bridge    string `json:"bridge_id" doc:"bridge that runs them, in a cluster one for all"`
	Total     int    `json:"total" doc:"number of them"`
	Connected int    `json:"connected" doc:"number of those that are connected"`
	Waiting   int    `json:"waiting" doc:"messages that their remote brokers have not acknowledged"`
}

// A Reading is one figure over the last hour.
type Reading struct {
	Name   string    `json:"name" doc:"name of the figure: received, sent, commands, command_p99, refused, denied, dropped, clients, sessions, agents, agents_online, tasks, runs, lag, disk_free"`
	Unit   string    `json:"unit,omitempty" doc:"per_s, per_min, ms, bytes or per_hour; absent for a plain number"`
	Now    float64   `json:"now" doc:"the figure of the last minute; for per_hour the sum of the hour"`
	Points []float64 `json:"points" doc:"the figure minute by minute, the oldest first, at most 60; fewer while the bridge has not run for an hour"`
}

// A meter makes a reading of samples that are next to each other.
type meter struct {
	name, unit string
	figure     func(before, after sample) float64
}

var meters = []meter{
	{"received", "per_s", rate("received", time.Second)},
	{"sent", "per_s", rate("sent", time.Second)},
	{"commands", "per_min", rate("commands", time.Minute)},
	{"command_p99", "ms", func(before, after sample) float64 { return 1000 * after.seconds.quantile(0.99, before.seconds) }},
	{"refused", "per_hour", grown("refused")},
	{"denied", "per_hour", grown("denied")},
	{"dropped", "per_hour", grown("dropped")},
	{"clients", "", level("clients")},
	{"sessions", "", level("sessions")},
	{"agents", "", level("agents")},
	{"agents_online", "", level("agents_online")},
	{"tasks", "", level("tasks")},
	{"runs", "", level("runs")},
	{"lag", "", level("lag")},
	{"disk_free", "bytes", level("disk_free")},
}

func level(name string) func(before, after sample) float64 {
	return func(_, after sample) float64 { return after.values[name] }
}

func grown(name string) func(before, after sample) float64 {
	return func(before, after sample) float64 { return max(after.values[name]-before.values[name], 0) }
}

func rate(name string, unit time.Duration) func(before, after sample) float64 {
	return func(before, after sample) float64 {
		passed := after.at.Sub(before.at)
		if passed <= 0 {
			return 0
		}
		return grown(name)(before, after) * float64(unit) / float64(passed)
	}
}

// Status shows the readings. It looks at the metrics at most every two seconds.
func (s *Service) Status(ctx context.Context, call *commands.Call, _ Params) (Result, error) {
	s.take(false)
	result := Result{BridgeID: s.BridgeID, Version: s.Version, Protocol: protocol.Version, StartedAt: s.started.UnixMilli(), Ready: true}
	if err := s.Ready(ctx); err != nil {
		result.Ready, result.Why = false, protocol.AsError(err).Message
	}
	if s.Links != nil {
		result.Links = s.Links(ctx, call.Principal)
	}
	if s.Centre != nil {
		result.Centre = s.Centre(call.Principal)
	}
	s.mu.Lock()
	samples := append([]sample(nil), s.taken...)
	latest := s.latest
	s.mu.Unlock()
	for _, m := range meters {
		result.Readings = append(result.Readings, m.read(samples, latest))
	}
	return result, nil
}

// read makes a reading. The present figure covers the time since the last but one
// sample, so that it does not drop to zero when a minute begins.
func (m *meter) read(samples []sample, latest sample) Reading {
	r := Reading{Name: m.name, Unit: m.unit, Points: []float64{}}
	for i := 1; i < len(samples); i++ {
		r.Points = append(r.Points, m.figure(samples[i-1], samples[i]))
	}
	switch n := len(samples); {
	case n == 0:
	case m.unit == "per_hour":
		r.Now = m.figure(samples[0], latest)
	default:
		r.Now = m.figure(samples[max(n-2, 0)], latest)
	}
	return r
}
