package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An examination holds the evidence about one agent, and the findings.
type examination struct {
	*Service
	now   time.Time
	space protocol.SpaceID
	id    protocol.AgentID
	// caller is the caller of agent.doctor. It learns only the facts about the
	// agent's owner that it may see.
	caller    protocol.Party
	unbounded bool // it may see every space

	agent       Agent
	registered  bool
	sessions    []Session // of the agent
	client      *Session  // the connected one that matters, nil without one
	credentials []Credential
	who         *protocol.Principal // the principal whose rights are examined, nil if unknown
	cases       []Case              // the latest first

	findings []Finding
	checks   []Check
}

// examine gathers the evidence about an agent that the caller may see.
func (s *Service) examine(caller *protocol.Principal, space protocol.SpaceID, id protocol.AgentID) *examination {
	e := &examination{Service: s, now: s.Now(), space: space, id: id, caller: caller.Party(), unbounded: caller.Unbounded()}
	e.agent, e.registered = s.Agents.Examine(space, id)
	self := id.Party(space)
	parties := []protocol.Party{self}
	if owner := e.agent.Owner; e.registered && !owner.Includes(self) {
		parties = append(parties, owner)
	}
	for _, party := range e.open(parties) {
		e.credentials = append(e.credentials, s.Credentials.Of(party)...)
	}
	e.gatherSessions(parties)
	e.gatherCases(parties)
	for _, party := range parties {
		if e.who == nil {
			e.who = s.Credentials.Principal(party)
		}
	}
	if e.client != nil {
		e.who = e.client.Who
	}
	return e
}

// clientIDs are those under which clients of the agent may be known.
func (e *examination) clientIDs() []string {
	ids := append([]string{string(e.id)}, e.agent.Clients...)
	if e.agent.ClientID != "" {
		ids = append(ids, e.agent.ClientID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (e *examination) gatherSessions(parties []protocol.Party) {
	for _, id := range e.clientIDs() {
		session, ok := e.Clients.Session(e.space, id)
		if !ok || !slices.ContainsFunc(parties, func(p protocol.Party) bool {
			return p.ID == session.Principal && (session.Who == nil || p.Includes(session.Who.Party()))
		}) {
			continue
		}
		e.sessions = append(e.sessions, session)
	}
	for i := range e.sessions {
		s := &e.sessions[i]
		if s.Who != nil && (e.client == nil || slices.Contains(e.agent.Listening, s.ClientID)) {
			e.client = s
		}
	}
}

// knows reports whether the caller may know of a party's credentials, connections
// and faults: operators may, and devices of those of the examined agent and their
// own.
func (e *examination) knows(party protocol.Party) bool {
	return e.caller.Kind == protocol.KindOperator || party.Includes(e.caller) || party == e.id.Party(e.space)
}

// open are the parties that the caller may know of.
func (e *examination) open(parties []protocol.Party) []protocol.Party {
	return slices.DeleteFunc(slices.Clone(parties), func(p protocol.Party) bool { return !e.knows(p) })
}

// named is a party as the caller may know it.
func (e *examination) named(party protocol.Party) string {
	if !e.knows(party) {
		return "its owner"
	}
	return string(party.Kind) + " " + party.ID
}

// gatherCases finds the faults of the agent. Of the owner's faults it takes those of the agent's
// clients; faults of strangers are only for callers that may see every space.
func (e *examination) gatherCases(parties []protocol.Party) {
	ids := e.clientIDs()
	for _, party := range e.open(parties) {
		for _, c := range e.book.Of(party) {
			if party == parties[0] || c.Agent == e.id || c.Agent == "" && slices.Contains(ids, c.Client) {
				e.cases = append(e.cases, c)
			}
		}
	}
	if e.unbounded {
		for _, id := range ids {
			e.cases = append(e.cases, e.book.Strangers(id)...)
		}
	}
	slices.SortStableFunc(e.cases, latestFirst)
}

// result makes every check, in the order in which a device comes to work.
func (e *examination) result() Result {
	for _, check := range []func(){
		e.credential, e.connection, e.registration, e.subscription, e.presence, e.policy, e.skills, e.commands, e.answers, e.clock, e.queue, e.quota,
	} {
		check()
	}
	slices.SortStableFunc(e.findings, func(a, b Finding) int { return rank(a.Severity) - rank(b.Severity) })
	r := Result{
		AgentID: e.id, Space: e.space, Healthy: len(e.findings) == 0, Summary: "nothing is wrong",
		Findings: append([]Finding{}, e.findings...), Checks: e.checks, Recent: []FaultView{},
	}
	if !r.Healthy {
		r.Summary = e.findings[0].What
	}
	for i := range e.cases[:min(len(e.cases), mostFaults)] {
		r.Recent = append(r.Recent, viewOf(&e.cases[i]))
	}
	return r
}

func rank(s State) int {
	if s == Problem {
		return 0
	}
	return 1
}

// say notes the finding of a check.
func (e *examination) say(check string, state State, format string, args ...any) {
	e.checks = append(e.checks, Check{check, state, fmt.Sprintf(format, args...)})
}

// find notes the finding of a check, with its remedy.
func (e *examination) find(check string, severity State, do, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	e.findings = append(e.findings, Finding{Severity: severity, Check: check, What: what, Do: do})
	e.say(check, severity, "%s", what)
}

// blame adds a finding about a fault.
func (e *examination) blame(check string, severity State, c *Case) {
	w := inWords[c.Kind]
	what := w.what
	if c.Topic != "" {
		what += " (" + c.Topic + ")"
	}
	if c.Reason != "" {
		what += ": " + c.Reason
	}
	if c.Code != "" {
		what += " [" + c.Code + "]"
	}
	what += ", " + ago(e.now.Sub(c.Last))
	if c.Times > 1 {
		what += ", " + plural(c.Times, "time") + " since " + c.First.UTC().Format(time.RFC3339)
	}
	e.findings = append(e.findings, Finding{Severity: severity, Check: check, Kind: c.Kind, What: what, Do: w.do, At: c.Last.UnixMilli(), Times: c.Times})
	e.say(check, severity, "%s", what)
}

// away reports whether the agent is connected in no way.
func (e *examination) away() bool { return e.client == nil && !e.agent.Line && e.agent.Endpoints == 0 }

// latest is the latest fault since a time of which a word is true, nil if there
// is none.
func (e *examination) latest(since time.Time, is func(*Case) bool) *Case {
	for i := range e.cases {
		if c := &e.cases[i]; c.Last.After(since) && is(c) {
			return c
		}
	}
	return nil
}

func ofFamily(families ...string) func(*Case) bool {
	return func(c *Case) bool { return slices.Contains(families, c.Kind.family()) }
}

// Faults that come and go count for an hour.
const (
	lately     = time.Hour
	manyTimes  = 3
	takenTwice = 2
)

// connection: whether a client of it is there, and stays.
func (e *examination) connection() {
	const check = "connection"
	hourAgo := e.now.Add(-lately)
	taken := e.latest(hourAgo, func(c *Case) bool { return c.Kind == TakenOver && c.Times >= takenTwice })
	dropped := e.latest(hourAgo, func(c *Case) bool {
		return c.Kind.family() == "connection" && c.Kind != TakenOver && c.Kind != Dismissed && c.Times >= manyTimes
	})
	why := e.latest(time.Time{}, ofFamily("connect", "connection"))
	switch {
	case taken != nil:
		e.blame(check, Problem, taken)
	case !e.away() && dropped != nil:
		e.blame(check, Warning, dropped)
	case e.client != nil && !e.knows(e.client.Who.Party()):
		e.say(check, OK, "a client of its owner is connected")
	case e.client != nil:
		e.say(check, OK, "client %s is connected from %s by %s since %s", e.client.ClientID, e.client.Remote, e.client.Listener, e.client.Since.UTC().Format(time.RFC3339))
	case e.agent.Line:
		e.say(check, OK, "it is connected over WebSocket")
	case e.agent.Endpoints > 0:
		e.say(check, OK, "it is called over HTTP at %s", plural(e.agent.Endpoints, "endpoint"))
	case why != nil && e.isCredential(why):
		e.say(check, Problem, "no client of it is connected: see its credential")
	case why != nil:
		e.blame(check, Problem, why)
	default:
		e.find(check, Problem, "start the device, and look whether it reaches the address and the port of the bridge", "no client of it is connected%s", e.leftBecause())
	}
}

// leftBecause is the reason why the agent went, as far as that is known.
func (e *examination) leftBecause() string {
	if e.agent.Offline == "" {
		return ""
	}
	return ", it went: " + short(e.agent.Offline, mostReason)
}

// registration: whether the bridge knows the agent.
func (e *examination) registration() {
	const check = "registration"
	refused := e.latest(time.Time{}, func(c *Case) bool { return c.Kind == CommandRefused && c.Topic == "agent.register" })
	switch {
	case !e.registered && refused != nil:
		e.blame(check, Problem, refused)
	case !e.registered:
		e.find(check, Problem, "send agent.register, after it has connected", "no agent %q is registered", e.id)
	case e.agent.Suspended:
		e.find(check, Problem, "register it anew, with a certificate that counts", "it is suspended: the certificate that it was registered with has ended")
	default:
		e.say(check, OK, "registered by %s at %s", e.named(e.agent.Owner), e.agent.RegisteredAt.UTC().Format(time.RFC3339))
	}
}

// subscription: whether it listens for requests.
func (e *examination) subscription() {
	const check = "subscription"
	topic := e.Topics.AgentRequest(e.id)
	refused := e.latest(e.since(), func(c *Case) bool { return c.Kind == SubscribeRefused && c.Topic == topic })
	switch {
	case e.client == nil:
		e.say(check, Unknown, "no client of it is connected over MQTT")
	case len(e.agent.Listening) > 0 || !e.registered && slices.Contains(e.client.Filters, topic):
		e.say(check, OK, "it listens on %s", topic)
	case refused != nil:
		e.blame(check, Problem, refused)
	default:
		e.find(check, Problem, "subscribe to it, after each connect unless the session is kept", "it does not listen on its request topic %s", topic)
	}
}

// since is the time when the present connection began, zero without one: faults before it
// are of the past.
func (e *examination) since() time.Time {
	if e.client == nil {
		return time.Time{}
	}
	return e.client.Since
}

// presence: its state as the bridge shows it to others.
func (e *examination) presence() {
	const check = "presence"
	switch beat := e.agent.LastBeat; {
	case !e.registered:
		e.say(check, Unknown, "it is not registered")
	case e.agent.Missed:
		e.find(check, Problem, fmt.Sprintf("send agent.heartbeat every %v, or never", e.agent.Heartbeat), "it missed its heartbeats: the last came %s", ago(e.now.Sub(beat)))
	case !e.agent.Online:
		e.say(check, Problem, "offline%s", e.leftBecause())
	case beat.IsZero():
		e.say(check, OK, "online; it sends no heartbeats, and need not while it is connected")
	default:
		e.say(check, OK, "online; its last heartbeat came %s", ago(e.now.Sub(beat)))
	}
}

// policy: whether it has the rights that agents need.
func (e *examination) policy() {
	const check = "policy"
	if e.who == nil {
		e.say(check, Unknown, "it is not known as whom it comes")
		return
	}
	who, before := e.named(e.who.Party()), len(e.findings)
	explain := "aibridge policy explain says which policy decides; the role end_agent is what devices have"
	if !e.Rights.MayRegister(e.who, e.space, e.id) {
		e.find(check, Problem, explain, "%s may not register the agent", who)
	}
	if no := e.Rights.MayPublish(e.who, e.Topics.AgentResponse(e.id)); no != "" {
		e.find(check, Problem, explain, "%s may not answer on %s: %s", who, e.Topics.AgentResponse(e.id), no)
	}
	if no := e.Rights.MaySubscribe(e.who, e.Topics.AgentRequest(e.id)); no != "" {
		e.find(check, Problem, explain, "%s may not listen on %s: %s", who, e.Topics.AgentRequest(e.id), no)
	}
	if refused := e.latest(e.since(), func(c *Case) bool {
		return c.Kind.family() == "topic" && c.Topic != e.Topics.AgentRequest(e.id)
	}); refused != nil && e.client != nil {
		e.blame(check, Warning, refused)
	}
	if len(e.findings) == before {
		e.say(check, OK, "%s may register the agent, listen for requests and answer", who)
	}
}

// skills: whether it offers something.
func (e *examination) skills() {
	const check = "skills"
	var doubts []string
	for _, s := range e.agent.Skills {
		for _, w := range s.Warnings {
			doubts = append(doubts, fmt.Sprintf("skill %s: %s", s.ID, w))
		}
	}
	switch {
	case !e.registered:
		e.say(check, Unknown, "it is not registered")
	case len(e.agent.Skills) == 0:
		e.find(check, Warning, "register one with skill.register, or list them in agent.register", "it provides no skill: nobody can call it")
	case len(doubts) > 0:
		e.find(check, Warning, "correct the schema and register the skill again", "%s", short(strings.Join(doubts[:min(len(doubts), 3)], "; "), 3*mostReason))
	default:
		e.say(check, OK, "it provides %s", plural(len(e.agent.Skills), "skill"))
	}
}

// mistakesCount is the time for which a mistake counts while the agent does not
// connect anew.
const mistakesCount = 15 * time.Minute

// sinceMistakesCount is the time from which on mistakes are findings.
func (e *examination) sinceMistakesCount() time.Time {
	since := e.now.Add(-mistakesCount)
	if began := e.since(); began.After(since) {
		return began
	}
	return since
}

// commands: whether those that it sends are understood.
func (e *examination) commands() {
	const check = "commands"
	refused := e.latest(e.sinceMistakesCount(), func(c *Case) bool {
		return c.Kind == StateRefused || c.Kind == CommandRefused && (e.registered || c.Topic != "agent.register")
	})
	if refused != nil {
		e.blame(check, Warning, refused)
		return
	}
	e.say(check, OK, "no command of the last %s was refused", plural(int(mistakesCount/time.Minute), "minute"))
}

// answers: whether they can be used. That one came too late is worth a look
// only if others were missing.
func (e *examination) answers() {
	const check = "answers"
	since := e.sinceMistakesCount()
	before := len(e.findings)
	for _, kind := range []Kind{AnswerUnreadable, AnswerUnfit, AnswerForeign, AnswerUnasked, UnknownEvent, NoAnswer} {
		severity := Problem
		if kind == AnswerUnasked || kind == UnknownEvent || kind == NoAnswer {
			severity = Warning
		}
		if c := e.latest(since, func(c *Case) bool { return c.Kind == kind }); c != nil {
			e.blame(check, severity, c)
		}
	}
	late := e.latest(since, func(c *Case) bool { return c.Kind == AnswerLate })
	switch {
	case len(e.findings) > before:
		if late != nil {
			e.blame(check, Warning, late)
		}
	case e.agent.Open > 0:
		e.say(check, OK, "%s under way", plural(e.agent.Open, "request"))
	default:
		e.say(check, OK, "no answer of the last %s was wrong", plural(int(mistakesCount/time.Minute), "minute"))
	}
}

// largestSkew is the most that a clock may be wrong.
const largestSkew = 30 * time.Second

// clock: whether its clock is right.
func (e *examination) clock() {
	const check = "clock"
	wrong := e.latest(e.sinceMistakesCount(), func(c *Case) bool { return c.Kind == ClockWrong })
	switch skew := e.agent.Skew.Round(time.Second); {
	case wrong != nil:
		e.blame(check, Problem, wrong)
	case !e.agent.SkewKnown:
		e.say(check, Unknown, "no agent.register or agent.heartbeat of it told its time")
	case skew.Abs() > largestSkew:
		e.find(check, Warning, "set it by NTP, or send timestamp 0", "its clock is %v %s", skew.Abs(), aheadOrBehind(skew))
	default:
		e.say(check, OK, "its clock agrees with the bridge's within %v", largestSkew)
	}
}

func aheadOrBehind(skew time.Duration) string {
	if skew > 0 {
		return "ahead"
	}
	return "behind"
}

// manyWaiting is the number of messages that may wait for a client that is there.
const manyWaiting = 100

// queue: the messages that wait for it.
func (e *examination) queue() {
	const check = "queue"
	waiting := 0
	for _, s := range e.sessions {
		waiting += s.Queued
	}
	switch {
	case len(e.sessions) == 0:
		e.say(check, Unknown, "it has no MQTT session")
	case e.client != nil && e.client.Queued > manyWaiting:
		e.find(check, Warning, "acknowledge what was received, read faster, or subscribe to less", "%s wait for it and %s not acknowledged", plural(e.client.Queued, "message"), areOr(e.client.Inflight))
	case waiting > 0:
		e.say(check, OK, "%s for it", waitIn(waiting))
	default:
		e.say(check, OK, "no message waits for it")
	}
}

func areOr(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

func waitIn(n int) string {
	if n == 1 {
		return "1 message waits"
	}
	return fmt.Sprintf("%d messages wait", n)
}

// quota: whether it has reached its limits.
func (e *examination) quota() {
	const check = "quota"
	if e.who == nil {
		e.say(check, Unknown, "it is not known as whom it comes")
		return
	}
	if !e.knows(e.who.Party()) {
		e.say(check, Unknown, "it counts towards the limits of its owner")
		return
	}
	reached := e.Quotas.Reached(e.who)
	if len(reached) == 0 {
		e.say(check, OK, "no limit is reached")
	}
	for _, limit := range reached {
		e.find(check, Warning, "take less, or raise the limit in quotas", "%s", limit)
	}
}
