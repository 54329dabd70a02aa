package approval

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/keylock"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Options configure a [Service]. Zero fields mean the defaults.
type Options struct {
	Approvals records.Table[Record]
	Policy    Policy   // nil adds nothing to the declarations of tools
	Versions  Versions // of policies; nil: there is one alone
	// MayDecide reports whether a principal may decide on an approval of a space,
	// "" for any; MayDecideOwn whether even on one of its own, and MayDecideEdited
	// on one whose call it has changed itself. Nil: nobody.
	MayDecide       func(who *protocol.Principal, space protocol.SpaceID, id string) bool
	MayDecideOwn    func(who *protocol.Principal) bool
	MayDecideEdited func(who *protocol.Principal) bool
	Grants          grant.Authority // judges whether votes still count; nil: for ever
	// Check says why somebody's credential is of no use any more. Nil:
	// nobody's.
	Check func(who *protocol.Principal) error
	// Publish tells approvers of a space; it must not block for long.
	Publish func(to protocol.Recipients, e *protocol.Event)
	Record  func(Event) // tells the audit trail; it must not block

	AskAbout   []string                 // risks besides ask and high that need an approval, in lower case
	Wait       time.Duration            // for a decision, default and within what is left of the call: 120 s
	MaxArgs    int                      // bytes of arguments that people can be expected to judge, default 64 KiB
	MaxOpen    int                      // approvals that wait, of a space; default 20 000
	MaxOwn     int                      // of these, of one requester; default 500
	Life       time.Duration            // of a question about a kept call, default 7 days
	Use        time.Duration            // of an approval that was given, until the call is made; default 24 h
	LifeOf     map[string]time.Duration // Life by risk, in lower case
	UseOf      map[string]time.Duration // Use by risk, in lower case
	Rules      []Rule                   // who decides about which calls; the first that fits counts
	People     People                   // of several ids; an id that is not there is a person
	Keep       time.Duration            // how long those that are over can be looked at, default 7 days
	MaxKept    int                      // of these, of one space, default 10 000
	MaxOwnKept int                      // of these, of one requester, default 1000

	Webhooks []Webhook
	Told     records.Table[Told] // what webhooks were told of approvals; nil remembers nothing over restarts
	Node     string              // names this process in the steps of approvals
	// Heir says whether this process goes on with a thing of another one that has
	// ended. Nil: none does.
	Heir      func(ctx context.Context) (func(node, thing string) bool, error)
	Transport http.RoundTripper // of webhooks
	Mail      *Mailer           // nil sends no e-mails

	Console    string // address of the page for people, "" if unknown
	BridgeID   string
	Log        *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer
}

// An Event is something that happened to an approval, for the audit trail.
type Event struct {
	Name string // approval.requested, approval.used and so on
	Approval
	By *protocol.Principal // nil: the bridge
}

// A Service keeps approvals. Its methods may be called at the same time by
// many goroutines.
type Service struct {
	opts     Options
	hooks    *couriers
	debt     debt
	mail     *postman // nil without e-mails
	metrics  *metrics
	tally    *tally
	calendar *calendar

	revise Reviser                          // nil: nobody
	keeps  func(task, approval string) bool // nil: none is

	deciding keylock.Locks // by id, keep the steps of an approval, and the news of them, in order

	closing   chan struct{}
	closeOnce sync.Once

	mu      sync.Mutex
	waiting map[string]chan struct{}    // told when the approval of that id has changed
	seqs    map[protocol.SpaceID]uint64 // of events, of each space: nobody counts those of others
}

// New makes a service. It follows the table, so it comes before that is
// loaded.
func New(o Options) *Service {
	o.Wait = cmp.Or(o.Wait, tools.DefaultTimeout)
	o.MaxArgs = cmp.Or(o.MaxArgs, 64<<10)
	o.MaxOpen = cmp.Or(o.MaxOpen, 20_000)
	o.MaxOwn = cmp.Or(o.MaxOwn, 500)
	o.Life = cmp.Or(o.Life, 7*24*time.Hour)
	o.Use = cmp.Or(o.Use, 24*time.Hour)
	o.Keep = cmp.Or(o.Keep, 7*24*time.Hour)
	o.MaxKept = cmp.Or(o.MaxKept, 10_000)
	o.MaxOwnKept = cmp.Or(o.MaxOwnKept, 1000)
	o.BridgeID = cmp.Or(o.BridgeID, "aibridge")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Publish == nil {
		o.Publish = func(protocol.Recipients, *protocol.Event) {}
	}
	if o.Record == nil {
		o.Record = func(Event) {}
	}
	if o.MayDecide == nil {
		o.MayDecide = func(*protocol.Principal, protocol.SpaceID, string) bool { return false }
	}
	if o.Versions == nil {
		o.Versions = unversioned{}
	}
	if o.MayDecideEdited == nil {
		o.MayDecideEdited = func(*protocol.Principal) bool { return false }
	}
	if o.Grants == nil {
		o.Grants = grant.Unlimited{}
	}
	if o.Heir == nil {
		o.Heir = func(context.Context) (func(node, thing string) bool, error) {
			return func(string, string) bool { return false }, nil
		}
	}
	if o.Check == nil {
		o.Check = func(*protocol.Principal) error { return nil }
	}
	if o.MayDecideOwn == nil {
		o.MayDecideOwn = func(*protocol.Principal) bool { return false }
	}
	s := &Service{
		opts: o, debt: debt{told: o.Told, owed: make(map[string][]Step)}, mail: newPostman(o), tally: newTally(), calendar: newCalendar(),
		waiting: make(map[string]chan struct{}), seqs: make(map[protocol.SpaceID]uint64), closing: make(chan struct{}),
	}
	s.hooks = newCouriers(o, s.toldOf)
	s.metrics = newMetrics(o.Registerer, s)
	o.Approvals.OnChange(s.changed)
	if o.Told != nil {
		o.Told.OnChange(func(id string, _, now *Told) { s.debt.settled(id, now) })
	}
	return s
}

// changed counts an approval, notes when it is due, and wakes who waits for it.
func (s *Service) changed(id string, old, now *Record) {
	s.tally.changed(old, now)
	s.debt.changed(id, now)
	if now != nil && now.State == Pending && (old == nil || old.State != Pending || old.due() != now.due()) {
		s.calendar.note(now.due(), id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch := s.waiting[id]; ch != nil {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Close ends what waits: the calls fail with 5002. It is for a bridge that
// stops, before it waits for its commands to end.
func (s *Service) Close(context.Context) error {
	s.closeOnce.Do(func() { close(s.closing) })
	return nil
}

// Recover ends the approvals that calls of an earlier process waited for: they
// are gone, and what nobody waits for can no longer be approved. Those of kept
// calls stay. It is for a bridge that has its state to itself.
func (s *Service) Recover(ctx context.Context) error {
	for id, r := range s.opts.Approvals.All() {
		if r.State.over() || r.Parked {
			continue
		}
		_, revision, ok := s.opts.Approvals.Get(id)
		if !ok {
			continue
		}
		if _, err := s.end(ctx, r, revision, Withdrawn, "the bridge stopped while the call was waiting"); err != nil {
			return err
		}
	}
	return nil
}

// sweepPace is the interval at which old approvals are looked for.
const sweepPace = 10 * time.Minute

// Run delivers webhooks, ends questions whose time is over and forgets old
// approvals until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	beside.Go(func() { s.hooks.run(ctx) })
	beside.Go(func() { s.mail.run(ctx) })
	beside.Go(func() { s.calendar.keep(ctx, s.opts.Now, s.look) })
	defer beside.Wait()
	tick := time.NewTicker(sweepPace)
	defer tick.Stop()
	for {
		s.sweep(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Commands are the commands of the family.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(approvalList, s.List),
		commands.New(approvalGet, s.Get),
		commands.New(approvalDecide, s.Decide),
		commands.New(approvalBatch, s.Batch),
		commands.New(approvalEdit, s.Edit),
	}
}
