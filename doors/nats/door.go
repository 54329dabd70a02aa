package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/protocol"
)

// Name marks calls by this door.
const Name = "nats"

// A Router runs commands. *commands.Router is one.
type Router interface {
	Handle(ctx context.Context, in commands.Inbound) *protocol.Response
}

// A Capability is one capability of a skill, for clients that discover the service.
type Capability struct {
	Skill       protocol.SkillID
	ID          protocol.CapabilityID
	Description string
	Params      json.RawMessage // JSON Schema, empty for any
}

// Options configure a [Door].
type Options struct {
	Settings Settings
	Router   Router
	// Authenticate yields the principal of the credential in the headers, or of the
	// API key passed as otherwise for requests without a credential.
	Authenticate func(ctx context.Context, h http.Header, otherwise string) (*protocol.Principal, error)
	// Dev admits requests without a credential.
	Dev bool
	// Offered are capabilities that a principal may invoke, at most so many.
	Offered    func(ctx context.Context, who *protocol.Principal, most int) []Capability
	Agents     Agents // needed if the settings have an owner of agents
	Root       string // of the bridge's topics
	BridgeID   string
	Version    string // of the program
	Limits     protocol.Limits
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// Bounds of pending requests and messages. Further requests are refused (4008), or
// dropped if the sender awaits no answer.
const (
	maxStrangers = 256      // requests that are not authenticated yet
	maxRequests  = 4096     // requests under way, shared among principals
	maxPending   = 8192     // messages that a subscription has not looked at
	maxPendingB  = 32 << 20 // their bytes
)

// queue is the group of which one bridge gets a request.
const queue = "aibridge"

// A Door takes requests of NATS clients.
type Door struct {
	Options
	key       string // of requests without a credential
	conn      *nats.Conn
	service   *service
	heard     []*nats.Subscription
	agents    *agents // nil without
	strangers chan struct{}
	places    *fair.Semaphore
	metrics   metrics

	ctx     context.Context // of the requests under way
	end     context.CancelFunc
	beating context.Context // until no more requests are taken
	hush    context.CancelFunc
	running sync.WaitGroup
}

// Open serves the NATS of the settings, as soon as it can be reached.
func Open(o Options) (*Door, error) {
	key, err := o.Settings.principal()
	if err != nil {
		return nil, err
	}
	d := &Door{
		Options: o, key: key, strangers: make(chan struct{}, maxStrangers), metrics: newMetrics(o.Registerer),
		places: fair.New(fair.Options{What: "NATS requests under way", Capacity: maxRequests}),
	}
	d.ctx, d.end = context.WithCancel(context.Background())
	d.beating, d.hush = context.WithCancel(d.ctx)
	if d.conn, err = nats.Connect(o.Settings.URL, append(o.Settings.options(), d.connection()...)...); err != nil {
		d.end()
		return nil, fmt.Errorf("doors.nats: connect to %s: %w", natsd.Redact(o.Settings.URL), err)
	}
	d.service = newService(d)
	if o.Settings.Agents != "" {
		d.agents = newAgents(d)
	}
	if err := d.serve(); err != nil {
		d.end()
		d.conn.Close()
		return nil, err
	}
	if d.agents != nil {
		d.running.Go(func() { d.agents.beat(d.beating) })
	}
	return d, nil
}

// connection is the behaviour of the connection: it is made whenever NATS can be
// reached, buffers nothing for later, and gets no messages of its own.
func (d *Door) connection() []nats.Option {
	return []nats.Option{
		nats.Name("aibridge " + d.BridgeID),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(time.Second),
		nats.ReconnectBufSize(-1),
		nats.NoEcho(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				d.Log.Warn("lost the connection to NATS clients", "error", err)
			}
		}),
		nats.ConnectHandler(func(*nats.Conn) { d.Log.Info("NATS clients are served") }),
		nats.ReconnectHandler(func(*nats.Conn) { d.Log.Info("NATS clients are served again") }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			d.Log.Warn("NATS", "subject", subject, "error", err)
		}),
	}
}

// serve subscribes to requests, and to the queries about the service.
func (d *Door) serve() error {
	work := map[string]nats.MsgHandler{
		d.Root + ".bridge.request":              d.handler(nil, d.envelope),
		d.Root + "." + skillLevel + "." + "*.*": d.handler(nil, d.skill),
	}
	for subject, handle := range work {
		if err := d.hear(subject, queue, handle); err != nil {
			return err
		}
	}
	for subject, handle := range d.service.subjects() {
		if err := d.hear(subject, "", handle); err != nil {
			return err
		}
	}
	if d.agents != nil {
		return d.agents.serve()
	}
	return nil
}

// hear subscribes to a subject until the door closes, in a queue group unless that is
// "".
func (d *Door) hear(subject, group string, handle nats.MsgHandler) error {
	s, err := d.conn.QueueSubscribe(subject, group, handle)
	if err = bounded(s, err); err != nil {
		return fmt.Errorf("doors.nats: subscribe to %s: %w", subject, err)
	}
	d.heard = append(d.heard, s)
	return nil
}

// bounded bounds the waiting messages of a subscription.
func bounded(s *nats.Subscription, err error) error {
	if err != nil {
		return err
	}
	return s.SetPendingLimits(maxPending, maxPendingB)
}

// Close takes no more requests, and lets those that are under way be answered
// while ctx lasts.
func (d *Door) Close(ctx context.Context) error {
	d.hush()
	d.deaf(ctx)
	answered := make(chan struct{})
	go func() { d.running.Wait(); close(answered) }()
	select {
	case <-answered:
	case <-ctx.Done():
	}
	d.end()
	<-answered
	d.conn.Close()
	return nil
}

// deaf drains the subscriptions, and returns when their pending messages are handled, or
// ctx ends. The connection stays, for the answers.
func (d *Door) deaf(ctx context.Context) {
	if !d.conn.IsConnected() {
		return
	}
	var ends []<-chan nats.SubStatus
	for _, s := range d.heard {
		end := s.StatusChanged(nats.SubscriptionClosed)
		if s.Drain() == nil { // or the connection is gone
			ends = append(ends, end)
		}
	}
	for _, end := range ends {
		select {
		case <-end:
		case <-ctx.Done():
			return
		}
	}
}

// handler runs requests by a function, each on a goroutine of its own. Begin, unless
// it is nil, sees a request before that.
func (d *Door) handler(begin func(r *request), run func(r *request) *protocol.Response) nats.MsgHandler {
	return func(m *nats.Msg) {
		r := &request{Msg: m, began: time.Now()}
		if begin != nil {
			begin(r)
		}
		if d.foreign(m.Reply) {
			d.Log.Warn("a NATS request names a subject of the bridge's own for its answer", "subject", m.Subject, "reply", m.Reply)
			return
		}
		select {
		case d.strangers <- struct{}{}:
		default:
			d.answer(r, d.failure(protocol.BusyFor(time.Second, "too many NATS requests begin at once")))
			return
		}
		d.running.Go(func() { d.admit(r, run) })
	}
}

// foreign reports whether answers must not go to a subject: the bridge would take
// them for requests, or carry them to MQTT, with rights of its own that the sender
// may not have.
func (d *Door) foreign(reply string) bool {
	first, _, _ := strings.Cut(reply, ".")
	if first == d.Root || strings.HasPrefix(first, "$") || d.agents != nil && first == agentsRoot {
		return reply != ""
	}
	for _, filter := range d.Settings.Subscribe {
		if level, _, _ := strings.Cut(filter, "/"); mustSubject(level) == first {
			return true
		}
	}
	return false
}

// admit authenticates the sender of a request, and has it run.
func (d *Door) admit(r *request, run func(r *request) *protocol.Response) {
	who, err := d.Authenticate(d.ctx, headers(r.Header), d.key)
	<-d.strangers
	if err != nil {
		d.answer(r, d.failure(protocol.AsError(err)))
		return
	}
	r.who = who
	party := fair.Of(who)
	if err := d.places.TryAcquire(party, 1); err != nil {
		d.answer(r, d.failure(err))
		return
	}
	defer d.places.Release(party, 1)
	d.answer(r, run(r))
}

// headers are those of a message as HTTP has them: names in any case.
func headers(of nats.Header) http.Header {
	h := make(http.Header, len(of))
	for name, values := range of {
		for _, v := range values {
			h.Add(name, v)
		}
	}
	return h
}

// failure is the answer to a request that was not run.
func (d *Door) failure(err *protocol.Error) *protocol.Response {
	return &protocol.Response{
		Version: protocol.Version, Timestamp: time.Now().UnixMilli(), Err: err, Metadata: protocol.Metadata{SenderID: d.BridgeID},
	}
}

// answer sends the response to a request to its reply subject, with the headers
// that NATS micro has for errors.
func (d *Door) answer(r *request, response *protocol.Response) {
	if r.stream != nil {
		d.agents.end(r, response.Err)
		return
	}
	d.service.count(r, response.Err)
	if r.Reply == "" {
		return
	}
	m := nats.NewMsg(r.Reply)
	m.Data = r.body(response)
	if response.Err != nil {
		m.Header.Set(micro.ErrorHeader, headerText(response.Err.Message))
		m.Header.Set(micro.ErrorCodeHeader, string(response.Err.Code))
	}
	if err := d.conn.PublishMsg(m); err != nil {
		d.Log.Warn("answer to a NATS request not sent", "subject", r.Subject, "error", err)
	}
}

// headerText is text as the value of a header.
func headerText(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, text)
}
