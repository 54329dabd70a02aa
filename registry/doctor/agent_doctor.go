package doctor

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var agentDoctor = commands.Spec{
	Name:    "agent.doctor",
	Summary: "Say why an agent does not work, and what to do about it.",
	Effect:  commands.Read,
	Action:  "agent:doctor",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"agent_id":"lamp-1"}`,
}

// Params name an agent.
type Params struct {
	AgentID protocol.AgentID `json:"agent_id" doc:"the agent, registered or to be registered"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p Params) Target() commands.Resource {
	return commands.Resource{Type: "agent", ID: string(p.AgentID), Space: p.Space}
}

// A State is the result of a check.
type State string

// The states of checks.
const (
	OK      State = "ok"
	Warning State = "warning" // something is doubtful, or fails now and then
	Problem State = "problem" // it cannot work so
	Unknown State = "unknown" // it cannot be determined
)

// A Result is the findings of agent.doctor.
type Result struct {
	AgentID  protocol.AgentID `json:"agent_id" doc:"id of the agent"`
	Space    protocol.SpaceID `json:"space_id" doc:"id of the space that it lives in"`
	Healthy  bool             `json:"healthy" doc:"true if there is no fault"`
	Summary  string           `json:"summary" doc:"nothing is wrong, or the first finding in words"`
	Findings []Finding        `json:"findings" doc:"faults, the most likely cause first; empty if there is none"`
	Checks   []Check          `json:"checks" doc:"objects of the check, from the credential to the quotas"`
	Recent   []FaultView      `json:"recent" doc:"faults in the last 24 hours, since the bridge started, the latest first, at most 16"`
}

// A Finding is something that is wrong.
type Finding struct {
	Severity State  `json:"severity" doc:"problem or warning"`
	Check    string `json:"check" doc:"the check that found it"`
	Kind     Kind   `json:"kind,omitempty" doc:"kind of fault, such as connect.expired; absent if no fault was noted"`
	What     string `json:"what" doc:"fault, in words"`
	Do       string `json:"do" doc:"remedy"`
	At       int64  `json:"at,omitempty" doc:"time at which it happened last, Unix milliseconds; absent if it is so now"`
	Times    int    `json:"times,omitempty" doc:"number of times that it was noted; absent if it is so now"`
}

// A Check is one part of the examination.
type Check struct {
	Check string `json:"check" doc:"credential, connection, registration, subscription, presence, policy, skills, commands, answers, clock, queue or quota"`
	State State  `json:"state" doc:"ok, warning, problem or unknown"`
	What  string `json:"what" doc:"finding, in words"`
}

// A FaultView is a fault that was noted, whether or not it matters still.
type FaultView struct {
	Kind     Kind   `json:"kind" doc:"kind of fault"`
	What     string `json:"what" doc:"meaning, in words"`
	Reason   string `json:"reason,omitempty" doc:"exact fault; absent if there is no more to say"`
	Code     string `json:"code,omitempty" doc:"reason code of MQTT such as 0x87, or code of the protocol"`
	Topic    string `json:"topic,omitempty" doc:"topic, filter or command that was refused"`
	ClientID string `json:"client_id,omitempty" doc:"MQTT client id"`
	Address  string `json:"address,omitempty" doc:"place that it came from"`
	FirstAt  int64  `json:"first_at" doc:"time at which it was noted first, Unix milliseconds"`
	At       int64  `json:"at" doc:"time at which it was noted last, Unix milliseconds"`
	Times    int    `json:"times" doc:"number of times that it was noted"`
}

// mostExamining bounds the examinations at a time: every device may ask for its
// own.
const mostExamining = 4

// mostFaults bounds the faults that are shown.
const mostFaults = 16

// Examine finds the faults of an agent. One that is not registered is examined if it has
// left a trace: a credential, a session or a fault.
func (s *Service) Examine(_ context.Context, call *commands.Call, p Params) (Result, error) {
	who := call.Principal
	space := p.Space
	if space == "" {
		space = who.Home()
	}
	if space != who.Home() && !who.Unbounded() {
		return Result{}, s.Agents.NotFound(who, p.Space, p.AgentID)
	}
	select {
	case s.examining <- struct{}{}:
		defer func() { <-s.examining }()
	default:
		return Result{}, protocol.BusyFor(time.Second, "too many agents are examined")
	}
	e := s.examine(who, space, p.AgentID)
	if !e.registered && len(e.sessions) == 0 && len(e.credentials) == 0 && len(e.cases) == 0 {
		return Result{}, s.Agents.NotFound(who, p.Space, p.AgentID)
	}
	return e.result(), nil
}

func viewOf(c *Case) FaultView {
	return FaultView{
		Kind: c.Kind, What: inWords[c.Kind].what, Reason: c.Reason, Code: c.Code, Topic: c.Topic, ClientID: c.Client, Address: c.From,
		FirstAt: c.First.UnixMilli(), At: c.Last.UnixMilli(), Times: c.Times,
	}
}

// ago is a time in the past in words.
func ago(d time.Duration) string {
	switch {
	case d < 2*time.Second:
		return "just now"
	case d < 2*time.Minute:
		return plural(int(d/time.Second), "second") + " ago"
	case d < 2*time.Hour:
		return plural(int(d/time.Minute), "minute") + " ago"
	}
	return plural(int(d/time.Hour), "hour") + " ago"
}
