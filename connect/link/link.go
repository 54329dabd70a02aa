package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A Session is the link's session on the bridge.
type Session struct {
	Filters  []string
	Inflight int    // sent to the link and not acknowledged by the remote broker
	Queued   int    // messages that wait
	Bytes    int    // of these
	Dropped  uint64 // messages that found no room, since the bridge started
}

// A Broker is the bridge's own.
type Broker interface {
	// Dial connects a client with the rights of the grant.
	Dial(who grant.Grant) (net.Conn, error)
	// Session describes the session of a client id in a space.
	Session(space protocol.SpaceID, client string) (Session, bool)
	// End ends a session, with the messages that wait in it.
	End(space protocol.SpaceID, client string)
	// ForgetReceived forgets the identifiers of QoS 2 messages that a client has
	// begun to send and not ended.
	ForgetReceived(space protocol.SpaceID, client string)
}

// A Record is a link's memory of the time before a restart.
type Record struct {
	Space  protocol.SpaceID `json:"space"`            // of its session on the bridge
	There  []string         `json:"remote,omitempty"` // filters of its session at the remote broker
	Client string           `json:"client,omitempty"` // client id there
	URL    string           `json:"url,omitempty"`    // URL of the remote broker
	Rules  *Rules           `json:"rules,omitempty"`  // of a guided link
}

// Rules are those of both directions.
type Rules struct {
	Out []Rule `json:"out,omitempty"`
	In  []Rule `json:"in,omitempty"`
}

// A State is the state of a link's connection.
type State string

// The states of a link.
const (
	Connecting State = "connecting" // not connected yet
	Connected  State = "connected"
	Down       State = "down"    // tried in vain, or lost; is tried again
	Unknown    State = "unknown" // the bridge of the cluster that runs the link does not answer
)

// A Link is one remote broker.
type Link struct {
	config  Config
	service *Service

	mu      sync.Mutex
	party   protocol.Party // the link acts for; zero until that is known
	state   State
	since   time.Time
	problem string
	refuses [2]refusals     // filters, by direction
	last    map[bool]string // why a message was refused the last time, by direction
	fresh   map[string]bool // filters that the session has not had before
	anew    bool            // the session has begun since the remote broker was connected
	counts  map[tally]uint64
	lost    uint64 // connections
	given   *Rules // that a guided link has not taken yet, nil without any

	guide chan struct{} // tells the link of given rules
}

type refusals []string

func newLink(s *Service, c *Config) *Link {
	return &Link{
		config: *c, service: s, state: Connecting, since: time.Now(),
		last: map[bool]string{}, fresh: map[string]bool{}, counts: map[tally]uint64{},
		guide: make(chan struct{}, 1),
	}
}

// Pauses between attempts to connect.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// run keeps the link connected until ctx ends.
func (l *Link) run(ctx context.Context) {
	pause := l.service.pause
	l.remember()
	for ctx.Err() == nil {
		if !l.directed(ctx) {
			break
		}
		began, before := time.Now(), l.carried()
		err, anew := l.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		if anew {
			continue
		}
		if useful(time.Since(began), l.carried()-before) {
			pause = l.service.pause
		}
		wait := pause/2 + rand.N(pause) // not all bridges at once
		l.fails(err, wait)
		select {
		case <-time.After(wait):
		case <-l.guide:
		case <-ctx.Done():
		}
		pause = min(2*pause, lastPause)
	}
	l.becomes(Connecting, "")
}

// useful reports whether a connection that has ended, after some time and messages, was
// none of a series of vain attempts: a line that breaks often is up between its breaks.
func useful(lasted time.Duration, carried uint64) bool { return lasted > lastPause || carried > 0 }

// connect has the link carry messages until one of its connections ends.
func (l *Link) connect(ctx context.Context) error {
	who, err := l.service.authenticate(ctx, &l.config)
	if err != nil {
		return fmt.Errorf("the key of the link's principal: %w", err)
	}
	l.acts(who)
	before, _, _ := l.service.Records.Get(l.config.Name)
	kept, err := l.fetch(ctx, who)
	if err != nil {
		return err
	}
	if before != nil && before.Space != who.Home() { // the API key is of another space now
		l.service.Broker.End(before.Space, l.id())
	}
	l.knows(kept.Filters)
	there, answer, err := l.connectThere(ctx, l.anew)
	if err != nil {
		if errHere := l.keep(ctx, who, kept.Filters); errHere != nil {
			return errors.Join(err, errHere)
		}
		return err
	}
	r := l.newRelay(there, answer)
	if r.local, _, err = l.connectHere(ctx, who, min(l.inflight(), int(answer.Properties.Number(packet.ReceiveMaximum, 65535)))); err != nil {
		there.goodbye(packet.NormalDisconnection)
		return err
	}
	if !answer.SessionPresent {
		l.service.Broker.ForgetReceived(who.Home(), l.id()) // identifiers begin anew
	}
	if err := l.subscribe(ctx, r, before, kept.Filters, answer.SessionPresent); err != nil {
		r.local.goodbye(packet.NormalDisconnection)
		there.goodbye(packet.NormalDisconnection)
		return err
	}
	l.anew = false
	l.becomes(Connected, "")
	l.service.Log.Info("link is connected", "link", l.config.Name, "resumed", answer.SessionPresent, "version", levelName(r.there.version))
	return r.run(ctx.Done())
}

// fetch brings the link's session, as it was left, to this bridge: in a cluster it
// comes from the bridge that has it. Where there is none a new one begins, and so
// will one at the remote broker.
func (l *Link) fetch(ctx context.Context, who *protocol.Principal) (Session, error) {
	kept, had := l.service.Broker.Session(who.Home(), l.id())
	if !had && l.service.Holder != nil {
		local, answer, err := l.connectHere(ctx, who, 1)
		if err != nil {
			return kept, err
		}
		local.goodbye(packet.NormalDisconnection)
		kept, _ = l.service.Broker.Session(who.Home(), l.id())
		had = answer.SessionPresent
	}
	if !had {
		l.anew = true
	}
	return kept, nil
}

// newRelay is a relay to the remote broker that answered with this CONNACK.
func (l *Link) newRelay(there *side, answer *packet.Connack) *relay {
	r := &relay{
		link: l, there: there, mark: l.service.Mark, other: markOf(&answer.Properties),
		out:     way{rules: l.config.Out, outbound: true, reserved: l.reserved()},
		in:      way{rules: l.config.In, reserved: l.reserved()},
		qos:     byte(answer.Properties.Number(packet.MaximumQoS, 2)),
		retains: answer.Properties.Number(packet.RetainAvailable, 1) == 1,
		silence: time.Duration(cmp.Or(l.config.KeepAlive, defaultKeepAlive)) * time.Second,
	}
	if given := answer.Properties.Number(packet.ServerKeepAlive, 0); given > 0 {
		r.silence = min(r.silence, time.Duration(given)*time.Second)
	}
	return r
}

// subscribe subscribes at both brokers to the topics of the rules, and unsubscribes
// from former ones.
func (l *Link) subscribe(ctx context.Context, r *relay, before *Record, had []string, present bool) error {
	if err := l.subscribeHere(r.local, had, r.qos, func(filter string) byte {
		if !present || l.isFresh(filter) {
			return retainedSend
		}
		return retainedOmit
	}); err != nil {
		return err
	}
	record := &Record{Space: l.home(), There: r.in.filters(), Client: l.clientThere(), URL: l.config.URL, Rules: l.kept()}
	if before != nil && present && before.Client == record.Client && before.URL == record.URL {
		if err := unsubscribe(r.there, before.There, record.There); err != nil {
			return err
		}
	}
	if _, err := l.service.Records.Put(ctx, l.config.Name, record); err != nil {
		return err
	}
	s := r.in.subscribe(subscribeID, 2, func(string) byte {
		if present {
			return retainedIfNew
		}
		return retainedSend
	})
	if s != nil {
		if err := r.there.write(s.Append(nil, r.there.version)); err != nil {
			return err
		}
	}
	if l.config.Status != "" {
		if err := r.there.write(l.tells("online").Append(nil, r.there.version)); err != nil {
			return err
		}
	}
	if err := r.there.flush(); err != nil {
		return err
	}
	l.carries()
	return nil
}

// Values of Retain Handling, which says whether a subscription asks for retained
// messages (MQTT 5 §3.8.3.1).
const (
	retainedSend  byte = 0
	retainedIfNew byte = 1
	retainedOmit  byte = 2
)

// subscribeHere subscribes at the bridge to outgoing topics, with at most a QoS, and
// unsubscribes from former ones.
func (l *Link) subscribeHere(local *side, had []string, qos byte, handling func(filter string) byte) error {
	out := way{rules: l.config.Out, outbound: true}
	if err := unsubscribe(local, had, out.filters()); err != nil {
		return err
	}
	if s := out.subscribe(subscribeID, qos, handling); s != nil {
		return local.say(s.Append(nil, local.version))
	}
	return nil
}

// unsubscribe ends subscriptions that are no longer wanted.
func unsubscribe(from *side, had, wanted []string) error {
	u := &packet.Unsubscribe{PacketID: unsubscribeID}
	for _, filter := range had {
		if !slices.Contains(wanted, filter) {
			u.Filters = append(u.Filters, []byte(filter))
		}
	}
	if len(u.Filters) == 0 {
		return nil
	}
	return from.say(u.Append(nil, from.version))
}

// keep has the link's session on the bridge collect messages for a remote broker
// that is away: it makes the session, or puts off its end. A bridge whose store is
// away does not answer in time; the next attempt asks again.
func (l *Link) keep(ctx context.Context, who *protocol.Principal, had []string) error {
	if !l.service.stale(l) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	local, _, err := l.connectHere(ctx, who, 1)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = local.conn.SetReadDeadline(time.Unix(1, 0)) })()
	defer local.goodbye(packet.NormalDisconnection)
	if err := l.subscribeHere(local, had, 2, func(string) byte { return retainedOmit }); err != nil {
		return err
	}
	for len(l.config.Out) > 0 { // until the answer has come, so that it is made
		h, body, err := local.read()
		if err != nil {
			return err
		}
		if h.Type() == packet.SUBACK {
			r := &relay{link: l, local: local, out: way{rules: l.config.Out, outbound: true}}
			l.service.renewed(l)
			return r.subscribed(local, &r.out, body)
		}
	}
	l.service.renewed(l)
	return nil
}

func (l *Link) id() string { return LocalID(l.config.Name) }

func (l *Link) inflight() int { return cmp.Or(l.config.Inflight, defaultInflight) }

// clientThere is the client id at the remote broker. In a cluster it stays that of
// the bridge that connected first, whose session there all others go on with.
func (l *Link) clientThere() string {
	if l.config.ClientID == "" && l.service.Shared {
		if before, _, _ := l.service.Records.Get(l.config.Name); before != nil && before.URL == l.config.URL && before.Client != "" {
			return before.Client
		}
	}
	return cmp.Or(l.config.ClientID, l.service.BridgeID+"-"+l.config.Name)
}

func (l *Link) home() protocol.SpaceID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.party.Space
}

// acts sets the principal that the link acts for.
func (l *Link) acts(who *protocol.Principal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.party = who.Party()
}

// knows notes the filters of the configuration that are new to the session.
func (l *Link) knows(had []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.config.Out {
		if filter := l.config.Out[i].Local + l.config.Out[i].Topic; !slices.Contains(had, filter) {
			l.fresh[filter] = true
		}
	}
}

func (l *Link) isFresh(filter string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fresh[filter]
}

// carries notes that retained messages were asked for by every filter.
func (l *Link) carries() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.fresh)
}

// becomes notes a state.
func (l *Link) becomes(s State, problem string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == Connected && s == Down {
		l.lost++
	}
	if l.state != s {
		l.state, l.since = s, time.Now()
	}
	l.problem = problem
}

// fails notes the reason why the link is not connected. The same reason is logged
// once.
func (l *Link) fails(err error, again time.Duration) {
	why := "the connection has ended"
	if err != nil {
		why = err.Error()
	}
	l.mu.Lock()
	same := l.state == Down && l.problem == why
	l.mu.Unlock()
	l.becomes(Down, why)
	level := slog.LevelWarn
	if same {
		level = slog.LevelDebug
	}
	l.service.Log.Log(context.Background(), level, "link is down", "link", l.config.Name, "error", why, "again_in", again.Round(time.Millisecond))
}

// refusedFilters notes the filters of a direction that a broker refuses.
func (l *Link) refusedFilters(outbound bool, why []string) {
	for _, text := range why {
		l.service.Log.Error("a filter of a link is refused", "link", l.config.Name, "error", text)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuses[direction(outbound)] = why
}

func direction(outbound bool) int {
	if outbound {
		return 0
	}
	return 1
}

// refused counts a message that a broker does not take, and will not.
func (l *Link) refused(outbound bool, reason packet.Reason) {
	l.count(outbound, outcomeRefused)
	l.mu.Lock()
	before := l.last[outbound]
	l.last[outbound] = reason.String()
	l.mu.Unlock()
	if before != reason.String() {
		l.service.Log.Warn("a message of a link is refused", "link", l.config.Name, "outbound", outbound, "reason", reason.String())
	}
}

// A tally is a kind of message that is counted.
type tally struct {
	outbound bool
	outcome  string
}

// Outcomes of messages.
const (
	outcomeCarried  = "carried"
	outcomeRefused  = "refused"
	outcomeLooped   = "looped"
	outcomeUnmapped = "unmapped"
	outcomeTooLarge = "too_large"
)

func (l *Link) count(outbound bool, outcome string) {
	l.mu.Lock()
	l.counts[tally{outbound, outcome}]++
	l.mu.Unlock()
	l.service.metrics.count(l.config.Name, outbound, outcome)
}

// carried is the number of messages carried in both directions.
func (l *Link) carried() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[tally{true, outcomeCarried}] + l.counts[tally{false, outcomeCarried}]
}

func levelName(level byte) string {
	if level == packet.V5 {
		return "5"
	}
	return "3.1.1"
}
