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
	Versions  Versions // of policies; nil for policies that never change
	// MayDecide reports whether a principal may decide about an approval of a space, ""
	// for all; MayDecideOwn whether it may about its own call, and MayDecideEdited
	// about a call that it has changed. Nil reports false.
	MayDecide       func(who *protocol.Principal, space protocol.SpaceID, id string) bool
	MayDecideOwn    func(who *protocol.Principal) bool
	MayDecideEdited func(who *protocol.Principal) bool
	// MayName returns the error of a principal that is not the site which a name belongs to.
	// Nil accepts all.
	MayName func(space protocol.SpaceID, name string, who *protocol.Principal) error
	Grants  grant.Authority // judges the credentials of votes; nil: votes count for ever
	// Check returns the error of a credential that is not valid any more. Nil accepts
	// all.
	Check func(who *protocol.Principal) error
	// Publish sends an event to the approvers of a space; it must not block for long.
	Publish func(to protocol.Recipients, e *protocol.Event)
	Record  func(Event) // writes to the audit trail; it must not block

	AskAbout   []string                 // risks besides ask and high that need an approval, in lower case
	Wait       time.Duration            // for a decision, default and within what is left of the call: 120 s
	MaxArgs    int                      // bytes of arguments for people to judge, default 64 KiB
	MaxOpen    int                      // pending approvals of a space; default 20 000
	MaxOwn     int                      // pending approvals of one requester; default 500
	Life       time.Duration            // time until the approval of a parked call expires, default 7 days
	Use        time.Duration            // time within which a given approval can be used; default 24 h
	LifeOf     map[string]time.Duration // Life by risk, in lower case
	UseOf      map[string]time.Duration // Use by risk, in lower case
	Rules      []Rule                   // the first that matches counts
	People     People                   // people with several ids; any other id is a person of its own
	Keep       time.Duration            // retention of approvals in a final state, default 7 days
	MaxKept    int                      // retained approvals of one space, default 10 000
	MaxOwnKept int                      // retained approvals of one requester, default 1000

	Webhooks []Webhook
	Told     records.Table[Told] // settled deliveries; nil keeps nothing over restarts
	Node     string              // names this process in the steps of approvals
	// Heir returns a function that reports whether this process inherits a thing of an
	// ended one. Nil inherits none.
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

// A Service manages approvals. It is safe for use by many goroutines.
type Service struct {
	opts     Options
	hooks    *couriers
	debt     debt
	mail     *postman // nil without e-mails
	metrics  *metrics
	tally    *tally
	calendar *calendar

	revise Reviser                          // nil: calls cannot be changed
	keeps  func(task, approval string) bool // see OnSweep; nil keeps none

	deciding keylock.Locks // by id; keep the steps of an approval and their events in order

	closing   chan struct{}
	closeOnce sync.Once

	mu      sync.Mutex
	waiting map[string]chan struct{}    // signals of changes to waiting calls, by approval
	seqs    map[protocol.SpaceID]uint64 // sequence numbers of events; per space, so that they tell nothing of other spaces
}

// New returns a service. It follows the table, so call it before the table is loaded.
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
		opts: o, debt: debt{told: o.Told, owed: make(map[string][]Step)}, tally: newTally(), calendar: newCalendar(),
		waiting: make(map[string]chan struct{}), seqs: make(map[protocol.SpaceID]uint64), closing: make(chan struct{}),
	}
	s.hooks, s.mail = newCouriers(o, s.toldOf), newPostman(o, s.isWaiting, s.toldOf)
	s.metrics = newMetrics(o.Registerer, s)
	o.Approvals.OnChange(s.changed)
	if o.Told != nil {
		o.Told.OnChange(func(id string, _, now *Told) { s.debt.settled(id, now) })
	}
	return s
}

// changed counts an approval, adds its due time to the calendar, and wakes its waiting
// call.
func (s *Service) changed(id string, old, now *Record) {
	s.tally.changed(old, now)
	s.debt.changed(id, now)
	waited, waits := old != nil && old.State == Pending, now != nil && now.State == Pending
	switch {
	case waits && (!waited || old.due() != now.due()):
		s.calendar.note(now.due(), id)
	case waited && !waits:
		s.calendar.drop(id)
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

// isWaiting reports whether an approval waits for people.
func (s *Service) isWaiting(id string) bool {
	r, _, ok := s.opts.Approvals.Get(id)
	return ok && r.State == Pending
}

// Close ends all waits: the calls fail with 5002. A stopping bridge calls it before it
// waits for its commands to end.
func (s *Service) Close(context.Context) error {
	s.closeOnce.Do(func() { close(s.closing) })
	return nil
}

// Recover withdraws the approvals of calls that waited in an earlier process, which are
// gone with it. Approvals of parked calls stay. It is for a bridge without a cluster.
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

// sweepPace is the interval of the removal of old approvals.
const sweepPace = 10 * time.Minute

// Run delivers webhooks and e-mails, does the due steps of pending approvals, and
// removes old ones until ctx ends.
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
		commands.New(approvalRequest, s.Request),
		commands.New(approvalClose, s.CloseRequested),
	}
}
