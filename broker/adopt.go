package broker

import (
	"context"
	"slices"
	"time"
)

// Adopt serves the sessions of another bridge of a cluster, which has ended, from
// its journal: they get what its peers bring, end when their time is over, and
// leave their Wills, which the broker publishes as if they were those of its own
// clients. Nobody connects to them; to go on with them elsewhere, close the broker
// that is returned, and load the journal there. Close it before this one.
func (b *Broker) Adopt(bridge string, journal Journal, peers Peers, directory Directory, exclusives Exclusives) (*Broker, error) {
	o := b.options
	o.Journal, o.Peers, o.Directory, o.Exclusives, o.adopter = journal, peers, directory, exclusives, b
	o.Log = b.log.With("of", bridge)
	o.Retained, o.Presence, o.Registerer, o.Readers, o.SysInterval = nil, nil, nil, -1, -1
	a, err := New(o)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.adopted = append(slices.Clone(b.adopted), a)
	if b.shared != nil {
		a.bequests.Add(1)
		a.working.Go(func() {
			defer a.bequests.Add(-1)
			b.shared.takeIn(a, a.earlier)
		})
	}
	return a, nil
}

// family are the broker and those that it adopted.
func (b *Broker) family() []*Broker {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*Broker{b}, b.adopted...)
}

// leaveFamily ends what the adopter of a broker knows of it.
func (b *Broker) leaveFamily() {
	adopter := b.options.adopter
	if adopter == nil {
		return
	}
	adopter.mu.Lock()
	defer adopter.mu.Unlock()
	adopter.adopted = slices.DeleteFunc(slices.Clone(adopter.adopted), func(a *Broker) bool { return a == b })
}

// Vacant reports whether nobody has a session here, nor a Will that is still to be
// published, nor a retained message that all bridges should have.
func (b *Broker) Vacant() bool {
	b.mu.Lock()
	sessions := len(b.sessions)
	b.mu.Unlock()
	return sessions == 0 && b.timers.willsLeft() == 0 && b.bequests.Load() == 0
}

// entrust has the broker, or its adopter, publish a Will, and takes the Will off the
// record when every bridge that is to have it does. If the process ends before that,
// the Will is published once more, marked as a repetition.
func (t *turn) entrust(f *firedWill) {
	b, by := t.b, t.b
	if b.options.adopter != nil {
		by = b.options.adopter
	}
	b.bequests.Add(1)
	by.publishFor(f, func() {
		t := b.getTurn().begin()
		t.forgetWill(f.will)
		b.putTurn(t)
		b.bequests.Add(-1)
	})
}

// willPatience is the time that a broker that ends waits for other bridges to accept
// Wills: longer than a bridge may be silent before it is declared dead, and nobody
// waits for it.
const willPatience = 4 * time.Second

// GiveUpWills has an adopted broker publish no Wills any more: those that are due are the
// next owner's of the journal. It returns when those on their way have arrived and are off
// the record, or after some seconds.
func (b *Broker) GiveUpWills(ctx context.Context) {
	b.gaveUpWills.Store(true)
	b.awaitBequests(ctx)
}

// publishLastWills publishes the Wills of the clients that the broker cut off as it ends,
// and returns when all bridges that they are for have them and they are off the record, or
// after some seconds: what is on record then is published again.
func (b *Broker) publishLastWills(ctx context.Context) {
	if b.options.adopter != nil {
		return
	}
	t := b.getTurn().begin()
	b.timers.work(t)
	b.putTurn(t)
	b.awaitBequests(ctx)
}

// awaitBequests waits until no Will is on its way, unless that could not be put on record.
func (b *Broker) awaitBequests(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, willPatience)
	defer cancel()
	for b.bequests.Load() > 0 && b.Check() == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// publishFor publishes a Will, and calls then when it is stored for whom it has to be,
// here and at all peers that it is for.
func (b *Broker) publishFor(f *firedWill, then func()) {
	t := b.getTurn().begin()
	r := &Receipt{b: b, then: then}
	r.left.Store(1) // until the turn has found all
	t.receipt = r
	t.publishWill(f.client, f.will)
	t.receipt = nil
	if t.recorded != 0 {
		r.left.Add(1)
		b.journal.whenStored(func() {
			r.Answer(Taken)
			b.AnswerReceipts()
		})
	}
	b.putTurn(t)
	r.Answer(Missed)
	b.AnswerReceipts()
}

// whenStored has a function called when all is stored that is recorded by now.
func (j *scribe) whenStored(then func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.arrivals = append(j.arrivals, then)
}

// Count is the number of sessions, with and without a client.
func (b *Broker) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sessions)
}

// closeAdopted closes the brokers that were adopted and are still open.
func (b *Broker) closeAdopted(ctx context.Context) {
	for _, a := range b.family()[1:] {
		_ = a.Close(ctx)
	}
}
