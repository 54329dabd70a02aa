package estate

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/protocol"
)

const (
	// lookEvery is the interval of checks of all estates, in addition to those after a
	// change.
	lookEvery = time.Second
	// retryAfter is the time when an estate is tried again that could not be taken.
	retryAfter = 5 * time.Second
	// closeTimeout is the time limit of giving an estate back.
	closeTimeout = 10 * time.Second
)

// Run serves the sessions of dead bridges that fall to this bridge, until ctx ends.
// Then it gives all its estates back.
func (e *Estates) Run(ctx context.Context) error {
	defer e.giveBackAll(context.WithoutCancel(ctx))
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		e.look(ctx)
		select {
		case <-e.wake:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look gives back the estates of bridges that have returned or have no sessions left,
// and adopts orphaned ones.
func (e *Estates) look(ctx context.Context) {
	living, publishers := e.living(), e.publishers()
	for bridge, server := range e.held {
		if _, back := living[bridge]; back || server.Vacant() {
			e.giveBack(ctx, bridge)
		} else {
			server.Reconcile(publishers)
		}
	}
	self := e.o.Members.Self()
	waiting := 0
	for bridge, r := range e.o.Records.All() {
		_, lives := living[bridge]
		if mine := r.Holder == self && bridge != self.ID; mine && lives && e.held[bridge] == nil {
			e.release(ctx, bridge, false) // which failed before
		} else if e.orphaned(bridge, r, living) {
			waiting++
			if mine || Adopter(bridge, e.candidates()) == self.ID { // mine: it could not be opened
				e.tryAdopt(ctx, bridge)
			}
		}
	}
	e.metrics.tell(waiting, e.held)
}

// orphaned reports whether a bridge is dead and no living process serves its sessions.
func (e *Estates) orphaned(bridge string, r *Record, living census) bool {
	if _, lives := living[bridge]; lives || r.Vacant {
		return false
	}
	if r.Holder == e.o.Members.Self() {
		return e.held[bridge] == nil
	}
	return !living.runs(r.Holder)
}

// candidates are the bridges that can take estates.
func (e *Estates) candidates() (ids []string) {
	for _, m := range e.o.Members.Members() {
		if e.o.Ready(m) && m.State != cluster.Draining {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// tryAdopt is adopt, a while after it has failed.
func (e *Estates) tryAdopt(ctx context.Context, bridge string) {
	if time.Now().After(e.pause[bridge]) && ctx.Err() == nil {
		e.adopt(ctx, bridge)
	}
}

// adopt takes the estate of a bridge, unless another process does. Records and members
// come in two streams: the holder may have joined without this bridge knowing yet. It
// counts as dead only if it is missing after a catch-up with the members.
func (e *Estates) adopt(ctx context.Context, bridge string) {
	began := time.Now()
	r, revision, there := e.o.Records.Get(bridge)
	if !there || e.o.Members.Catchup(ctx) != nil || !e.orphaned(bridge, r, e.living()) {
		return
	}
	taken := &Record{Holder: e.o.Members.Self(), Run: r.Run + 1}
	_, err := e.o.Records.Update(ctx, bridge, taken, revision)
	if protocol.CodeOf(err) == protocol.RevisionConflict {
		return // another process has taken it
	}
	var server Server
	if err == nil {
		server, err = e.o.Serve(ctx, bridge, taken.Run)
	}
	if err != nil && ctx.Err() != nil {
		e.release(context.WithoutCancel(ctx), bridge, false)
		return // this bridge ends
	}
	if err != nil {
		e.pause[bridge] = time.Now().Add(retryAfter)
		e.metrics.failed.Inc()
		e.o.Log.Error("the sessions of a bridge that has ended are not served yet: what is published for them is not acknowledged meanwhile", "bridge", bridge, "error", err)
		return
	}
	server.Reconcile(e.publishers())
	e.held[bridge] = server
	took := time.Since(began)
	e.metrics.took(took)
	e.o.Log.Info("the sessions of a bridge that has ended are served here", "bridge", bridge, "sessions", server.Count(), "took", took.Round(time.Millisecond))
	if server.Vacant() {
		e.giveBack(ctx, bridge)
	}
}

// giveBack ends the service for a bridge.
func (e *Estates) giveBack(ctx context.Context, bridge string) {
	server := e.held[bridge]
	delete(e.held, bridge)
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	sessions := server.Count()
	vacant := server.Close(ctx)
	if e.release(ctx, bridge, vacant) && !vacant {
		e.o.Log.Info("the sessions of another bridge are given back", "bridge", bridge, "sessions", sessions)
	}
}

// release writes a record without a holder for an estate that is not served any more.
// It reports whether that succeeded.
func (e *Estates) release(ctx context.Context, bridge string, vacant bool) bool {
	r, revision, there := e.o.Records.Get(bridge)
	if !there || r.Holder != e.o.Members.Self() {
		return false
	}
	if _, err := e.o.Records.Update(ctx, bridge, &Record{Run: r.Run, Vacant: vacant}, revision); err != nil {
		e.o.Log.Warn("the sessions of another bridge are not given back yet", "bridge", bridge, "error", err)
		return false
	}
	return true
}

func (e *Estates) giveBackAll(ctx context.Context) {
	for bridge := range e.held {
		e.giveBack(ctx, bridge)
	}
}
