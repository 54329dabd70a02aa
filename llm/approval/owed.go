package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A Step is an event of an approval for webhooks and e-mails. It is stored with the change
// itself, so that after the end of a bridge another one, or the next process, finds the
// missing deliveries.
type Step struct {
	Event string   `json:"event"`
	At    int64    `json:"at"` // Unix milliseconds
	Seq   uint64   `json:"seq"`
	Node  string   `json:"node,omitempty"`  // the process that delivers it
	Hooks []string `json:"hooks,omitempty"` // the deliveries: webhooks, see [Webhook.name], and byMail
}

// maxSteps is the greatest number of stored steps of an approval: one bit each.
const maxSteps = 64

// Told is the record of the settled steps of an approval: delivered to a webhook or by
// e-mail, or given up.
type Told struct {
	Hooks map[string]uint64 `json:"hooks"` // a bit for each step, by the name of the webhook, or byMail
}

// The news are the step of an approval that a delivery is about.
type news struct {
	approval string
	step     int // of the approval, -1 for one that is not stored
	name     string
}

// has reports whether the delivery of a step to a webhook is settled. A nil record has
// none.
func (t *Told) has(hook string, step int) bool {
	return t != nil && t.Hooks[hook]&(1<<step) != 0
}

// A debt holds the approvals with missing deliveries.
type debt struct {
	told records.Table[Told] // nil: nothing is stored

	mu   sync.Mutex
	owed map[string][]Step // by approval
}

// changed updates the steps of an approval.
func (d *debt) changed(id string, now *Record) {
	if d.told == nil {
		return
	}
	var steps []Step
	if now != nil {
		steps = now.Steps
	}
	told, _, _ := d.told.Get(id)
	d.mu.Lock()
	defer d.mu.Unlock()
	if paid(steps, told) {
		delete(d.owed, id)
	} else {
		d.owed[id] = steps
	}
}

// settled removes an approval whose deliveries are all settled.
func (d *debt) settled(id string, told *Told) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if paid(d.owed[id], told) {
		delete(d.owed, id)
	}
}

// ids returns the approvals with missing deliveries.
func (d *debt) ids() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.owed))
}

func (d *debt) size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.owed)
}

// paid reports whether all deliveries of all steps are settled.
func paid(steps []Step, told *Told) bool {
	for i, step := range steps {
		for _, hook := range step.Hooks {
			if !told.has(hook, i) {
				return false
			}
		}
	}
	return true
}

// name identifies a webhook in records. They must not hold its URL, which often
// contains a secret.
func (h *Webhook) name() string {
	sum := sha256.Sum256([]byte(h.URL))
	return hex.EncodeToString(sum[:8])
}

// happens adds a step to an approval that is about to be stored, and returns it.
func (s *Service) happens(r *Record, event string) Step {
	s.mu.Lock()
	s.seqs[r.Space]++
	step := Step{Event: event, At: ms(s.opts.Now()), Seq: s.seqs[r.Space], Node: s.opts.Node}
	s.mu.Unlock()
	step.Hooks = s.hooks.of(r.Space)
	if s.mail.tells(r.Space, event) {
		step.Hooks = append(step.Hooks, byMail)
	}
	if s.opts.Told != nil && len(step.Hooks) > 0 && len(r.Steps) < maxSteps {
		r.Steps = append(slices.Clone(r.Steps), step)
	}
	return step
}

// Retell queues the missing deliveries to webhooks and by e-mail: of this bridge, and of
// ended bridges for the approvals that this one inherits.
func (s *Service) Retell(ctx context.Context) error {
	ids := s.debt.ids()
	if len(ids) == 0 {
		return nil
	}
	inherits, err := s.opts.Heir(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		r, _, ok := s.opts.Approvals.Get(id)
		if !ok {
			continue
		}
		for i := range r.Steps {
			if node := r.Steps[i].Node; node == s.opts.Node || inherits(node, "approval/"+id) {
				e := s.event(r, &r.Steps[i])
				s.tellHooks(r, i, e)
				s.tellPeople(r, i, e)
			}
		}
	}
	return nil
}

// tellHooks queues the deliveries of a step, -1 for an unstored one, to the webhooks
// without a settled delivery.
func (s *Service) tellHooks(r *Record, step int, e *protocol.Event) {
	var told *Told
	if step >= 0 {
		told, _, _ = s.opts.Told.Get(r.ID)
	}
	s.hooks.send(r.Space, e, step, func(hook string) bool { return told.has(hook, step) })
}

// tellPeople queues the e-mail about a step, -1 for one that is not stored, unless it is
// settled.
func (s *Service) tellPeople(r *Record, step int, e *protocol.Event) {
	if step >= 0 {
		told, _, _ := s.opts.Told.Get(r.ID)
		if told.has(byMail, step) || !slices.Contains(r.Steps[step].Hooks, byMail) {
			return
		}
	}
	s.mail.send(r, s.view(r), e, step)
}

// event is the event of a step of an approval.
func (s *Service) event(r *Record, step *Step) *protocol.Event {
	view := s.view(r)
	data, err := json.Marshal(view)
	if err != nil { // it came from JSON
		s.opts.Log.Error("an event of an approval is not rendered", "event", step.Event, "error", err)
	}
	return &protocol.Event{
		Version: protocol.Version, ID: view.ID, Timestamp: step.At, Name: step.Event, Seq: step.Seq, Data: data,
		Metadata: protocol.Metadata{SenderID: s.opts.BridgeID, TraceID: view.TraceID},
	}
}

// toldOf stores that a delivery of a step is settled.
func (s *Service) toldOf(ctx context.Context, hook string, n news) {
	if n.step < 0 {
		return
	}
	_, _, err := records.Change(ctx, s.opts.Told, n.approval, func(t *Told, _ uint64) (*Told, error) {
		next := &Told{Hooks: make(map[string]uint64)}
		if t != nil {
			maps.Copy(next.Hooks, t.Hooks)
		}
		next.Hooks[hook] |= 1 << n.step
		return next, nil
	})
	if err != nil && ctx.Err() == nil {
		s.opts.Log.Warn("an event may be delivered twice, as its delivery could not be recorded", "event", n.name, "error", err)
	}
}

// forget removes the record of deliveries of a deleted approval.
func (s *Service) forget(ctx context.Context, id string) {
	if s.opts.Told == nil {
		return
	}
	if err := s.opts.Told.Delete(ctx, id, 0); err != nil && protocol.CodeOf(err) != protocol.NotFound && ctx.Err() == nil {
		s.opts.Log.Warn("the record of deliveries of an old approval is not removed", "approval", id, "error", err)
	}
}

// tooOld is the age at which a delivery is given up.
const tooOld = 24 * time.Hour
