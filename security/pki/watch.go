package pki

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// An Ended is a certificate that is no longer valid.
type Ended struct {
	Serial    protocol.Serial
	Authority Authority
	Principal string // id of the holder
	Kind      protocol.Kind
	Space     protocol.SpaceID
	Skill     protocol.SkillID // "" without one
	Reason    EndReason
	Text      string // for people: the reason given with a revocation
	// Successor is a valid certificate renewed from this one, "" without one.
	Successor protocol.Serial
}

// Err answers the calls that relied on the certificate: 2007, or
// 2006 if it expired.
func (e Ended) Err() *protocol.Error {
	code := protocol.CertificateRevoked
	if e.Reason == Expired {
		code = protocol.CertificateExpired
	}
	return protocol.Errorf(code, "%s", e.Text).With("serial", string(e.Serial))
}

// An EndReason is the reason why a certificate ended.
type EndReason string

// The ways a certificate ends.
const (
	Revoked EndReason = "revoked"
	Expired EndReason = "expired"
)

// A watch knows the next event: which certificate is to be warned about or
// expires, and the revoked ones of which listeners are still to be notified.
type watch struct {
	mu      sync.Mutex
	begun   bool
	queue   schedule
	pending []*entry // revoked
	wake    chan struct{}
}

// An appointment is the next thing to happen to a certificate.
type appointment struct {
	at     time.Time
	serial protocol.Serial
	days   int // left, when it is a warning; 0 is the end
}

func newWatch() *watch { return &watch{wake: make(chan struct{}, 1)} }

// begin is called when all stored certificates have been read: earlier ends are no
// events.
func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
}

// revoked notes a revocation of which listeners are to be notified.
func (w *watch) revoked(e *entry) {
	w.mu.Lock()
	if w.begun {
		w.pending = append(w.pending, e)
	}
	w.mu.Unlock()
	w.signal()
}

// schedule notes when something happens to a certificate next. Of warnings
// that are due already only the most urgent is given.
func (w *watch) schedule(e *entry, now time.Time) {
	if e.Revoked != nil || now.After(e.notAfter) {
		return
	}
	next := appointment{at: e.notAfter.Add(time.Millisecond), serial: e.Serial} // valid includes the last moment
	for _, days := range warnings() {
		at := e.notAfter.Add(-time.Duration(days) * day)
		if at.Before(e.notBefore.Add(backdate)) {
			continue // it never lasted that long
		}
		if next.days == 0 || at.Before(now) {
			next.at, next.days = at, days
		}
	}
	w.put(next)
}

func (w *watch) put(next appointment) {
	w.mu.Lock()
	heap.Push(&w.queue, next)
	first := w.queue[0] == next
	w.mu.Unlock()
	if first {
		w.signal()
	}
}

// warnings are the days before the end on which holders are warned.
func warnings() []int { return []int{30, 7, 1} }

const day = 24 * time.Hour

func (w *watch) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// due takes the certificates whose time has come, and returns the next time.
func (w *watch) due(now time.Time) (revoked []*entry, due []appointment, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	revoked, w.pending = w.pending, nil
	for len(w.queue) > 0 && !w.queue[0].at.After(now) {
		due = append(due, heap.Pop(&w.queue).(appointment))
	}
	if len(w.queue) > 0 {
		next = w.queue[0].at
	}
	return revoked, due, next
}

const (
	tidyInterval = time.Hour
	longestWait  = time.Minute // so that a clock that was set is noticed
)

// Run tells of certificates that end or are about to, and forgets those that are
// not needed any more, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var tidied time.Time
	for {
		select {
		case <-s.watch.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		now := s.opts.Now()
		revoked, due, next := s.watch.due(now)
		for _, e := range revoked {
			s.ended(ctx, e, Revoked, "certificate "+string(e.Serial)+" was revoked: "+e.Certificate.Revoked.Reason)
		}
		for _, a := range due {
			s.keep(ctx, a, now)
		}
		if now.Sub(tidied) >= tidyInterval {
			tidied = now
			s.collectGarbage(ctx, now)
		}
		wait := longestWait
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(s.opts.Now()), 0))
		}
		timer.Reset(wait)
	}
}

// keep warns of an expiry, or notifies of it, when its time has come.
func (s *Service) keep(ctx context.Context, a appointment, now time.Time) {
	e := s.index.find(a.serial)
	if e == nil || e.Revoked != nil {
		return
	}
	if now.After(e.notAfter) {
		s.ended(ctx, e, Expired, "certificate "+string(e.Serial)+" has expired")
		return
	}
	if a.days > 0 {
		s.opts.Publish("cert.expiring", expiringEvent{e.event(), a.days, e.notAfter.UnixMilli(), s.Successor(e.Serial)})
		next := appointment{at: e.notAfter.Add(time.Millisecond), serial: e.Serial}
		for _, days := range warnings() {
			if at := e.notAfter.Add(-time.Duration(days) * day); days < a.days && at.After(now) {
				next.at, next.days = at, days
				break
			}
		}
		s.watch.put(next)
		return
	}
	s.watch.put(a) // the clock was set back meanwhile
}

// ended notifies all listeners of the end of a certificate.
func (s *Service) ended(ctx context.Context, e *entry, reason EndReason, text string) {
	ended := Ended{
		Serial: e.Serial, Authority: e.Authority, Principal: e.scope.ID, Kind: e.scope.Kind, Space: e.scope.Space,
		Skill: e.scope.Skill, Reason: reason, Text: text, Successor: s.Successor(e.Serial),
	}
	s.opts.Log.Info("a certificate ended", "serial", e.Serial, "principal", e.scope.ID, "reason", reason, "text", text)
	s.mu.RLock()
	listeners := s.onEnd
	s.mu.RUnlock()
	for _, f := range listeners {
		f(ended)
	}
	s.opts.Publish("cert."+string(reason), endedEvent{e.event(), text, ended.Successor})
	event := audit.CertificateRevoked
	if reason == Expired {
		event = audit.CertificateExpired
	}
	s.opts.Audit.Record(ctx, audit.Entry{
		Event: event, Code: audit.OK, Resource: "certificate/" + string(e.Serial), Space: e.scope.Space, Reason: text,
		Details: map[string]string{"principal": e.scope.ID, "authority": string(e.Authority)},
	})
}

// The data of the events of certificates.
type (
	certificateEvent struct {
		Serial    protocol.Serial  `json:"serial"`
		Authority Authority        `json:"authority"`
		Principal string           `json:"principal"`
		Skill     protocol.SkillID `json:"skill_id,omitempty"`
		Space     protocol.SpaceID `json:"space_id"`
	}
	expiringEvent struct {
		certificateEvent
		Days      int             `json:"days_left"`
		ExpiresAt int64           `json:"expires_at"`
		Successor protocol.Serial `json:"successor,omitempty"`
	}
	endedEvent struct {
		certificateEvent
		Text      string          `json:"text"`
		Successor protocol.Serial `json:"successor,omitempty"`
	}
	requestEvent struct {
		RequestID string           `json:"request_id"`
		Authority Authority        `json:"authority"`
		Principal string           `json:"principal"`
		Skill     protocol.SkillID `json:"skill_id,omitempty"`
		Space     protocol.SpaceID `json:"space_id"`
		By        string           `json:"by"`
	}
)

func (e *entry) event() certificateEvent {
	return certificateEvent{e.Serial, e.Authority, e.scope.ID, e.scope.Skill, e.scope.Space}
}

// A schedule is a heap by time.
type schedule []appointment

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].at.Before(s[j].at) }
func (s schedule) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(x any)        { *s = append(*s, x.(appointment)) }
func (s *schedule) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}
