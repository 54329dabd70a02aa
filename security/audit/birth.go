package audit

import (
	"bytes"
	"context"
	"crypto/hmac"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Birth is the record of a chain's beginning, kept apart from the chain. So
// removing the chain and the note of its head, or replacing its key, does not make
// the trail look new.
type Birth struct {
	Chain string    `json:"chain"` // follows from the key
	At    time.Time `json:"at"`    // when the record was made
	First string    `json:"first"` // head after the oldest entry there was then
	Head  string    `json:"head"`  // of the chain, now and then
	MAC   []byte    `json:"mac"`
}

// Births keep the [Birth] of one trail.
type Births interface {
	// Birth returns the record, nil if there is none. It is called before Open
	// returns.
	Birth(ctx context.Context) (*Birth, error)
	// SetBirth replaces the record. It may fail for a while after Open.
	SetBirth(ctx context.Context, b Birth) error
}

const birthDomain = "aibridge audit birth\x00"

func (k *Key) birthMAC(b Birth) []byte {
	return k.mac(birthDomain, []byte(b.Chain+"\x00"+b.At.UTC().Format(time.RFC3339Nano)+"\x00"+b.First+"\x00"+b.Head))
}

// birth makes the record of a chain.
func (k *Key) birth(at time.Time, first, head Head) Birth {
	b := Birth{Chain: k.chain.String(), At: at.UTC().Round(0), First: first.String(), Head: head.String()}
	b.MAC = k.birthMAC(b)
	return b
}

// heads are the ends of the chain that the record knows. It fails with the fault of
// the record, or with the key.
func (b *Birth) heads(k *Key) (first, head Head, err error) {
	if b == nil {
		return Head{}, Head{}, nil
	}
	if b.Chain != k.chain.String() {
		return first, head, &birthError{problemKey, fmt.Sprintf(
			"audit.key is not the key of this trail: chain %s was recorded on %s, and this key writes chain %s",
			b.Chain, b.At.UTC().Format(time.DateTime), k.chain)}
	}
	if !hmac.Equal(b.MAC, k.birthMAC(*b)) {
		return first, head, &birthError{problemChanged, "the record of the trail's birth in the registry was changed"}
	}
	if first, err = ParseHead(b.First); err == nil {
		head, err = ParseHead(b.Head)
	}
	return first, head, err
}

// A birthError is a problem of the kind of [Problem].
type birthError struct{ kind, text string }

func (e *birthError) Error() string { return e.text }

// birthOf reads the record, nil if none is kept.
func (o *Options) birthOf(ctx context.Context) (*Birth, error) {
	if o.Births == nil {
		return nil, nil
	}
	b, err := o.Births.Birth(ctx)
	if err != nil {
		return nil, fmt.Errorf("audit: read the record of the trail's birth: %w", err)
	}
	return b, nil
}

// A bornState is the writer's copy of the birth's record.
type bornState struct {
	record Birth // as it is stored, zero for none
	alien  bool  // it is of another chain, or was changed: it stays
	first  Head
	due    time.Time
}

// birthEvery is the time by which the head in the birth's record may be behind.
const birthEvery = time.Minute

// checkBirth compares the trail with the record of its birth. It returns the head of that
// record, and records and logs a mismatch.
func (t *Trail) checkBirth(ctx context.Context) (head Head, err error) {
	born, err := t.o.birthOf(ctx)
	if born == nil || err != nil {
		return Head{}, err
	}
	t.born.record = *born
	first, head, wrong := born.heads(t.o.Key)
	if wrong == nil {
		t.born.first = first
		if wrong, err = t.younger(ctx, first); wrong == nil || err != nil {
			return head, err
		}
	}
	t.problems.Store(1)
	t.o.Logger.Error("audit: "+wrong.Error(), "chain", born.Chain, "since", born.At)
	e := Entry{Event: "audit.alien", Code: string(protocol.Internal), Security: true, Reason: wrong.Error(),
		Details: map[string]string{"chain": born.Chain, "head": born.Head}}
	if t.o.AcceptLoss {
		e.Event, e.Code = "audit.reborn", OK
		t.o.Logger.Warn("audit: the trail as it is counts from now on, as told")
		t.born = bornState{}
		t.problems.Store(0)
	} else {
		t.born.alien = true
	}
	t.Record(ctx, e)
	return Head{}, nil
}

// younger fails if the present chain is not the recorded one, but began later.
func (t *Trail) younger(ctx context.Context, first Head) (wrong, err error) {
	g, err := t.firstGroup(ctx)
	if g == nil || err != nil || first.Seq < g.first || first.Seq > g.last() {
		return nil, err
	}
	if found, ok := g.headAt(first.Seq); !ok || found != first {
		return &birthError{problemChanged, fmt.Sprintf("the trail is another one than was recorded: entry %d is not the one it was", first.Seq)}, nil
	}
	return nil, nil
}

// firstGroup is the oldest group of this chain, nil if the oldest that can be
// read is of another or there is none.
func (t *Trail) firstGroup(ctx context.Context) (*group, error) {
	bounds, err := t.log.Bounds(ctx)
	if err != nil || bounds.Last < bounds.First {
		return nil, err
	}
	b, err := readable(ctx, t.log, max(bounds.First, 1), bounds.Last+1)
	if err != nil || b == nil || b.groups[0].chain != t.o.Key.chain {
		return nil, err
	}
	return b.groups[0], nil
}

// keepBirth records the birth of the chain, or how far it has come by now.
func (t *Trail) keepBirth(ctx context.Context) error {
	if t.o.Births == nil || t.o.Level == Off || t.born.alien || t.Head().Seq == 0 {
		return nil
	}
	first, at := t.born.first, t.born.record.At
	if first.Seq == 0 {
		at, first = t.o.Now(), t.Head()
		g, err := t.firstGroup(ctx)
		if err != nil {
			return err
		}
		if g != nil {
			first = g.head()
		}
	}
	b := t.o.Key.birth(at, first, t.Head())
	if bytes.Equal(b.MAC, t.born.record.MAC) {
		return nil
	}
	if err := t.o.Births.SetBirth(ctx, b); err != nil {
		return err
	}
	t.born.record, t.born.first = b, first
	return nil
}

// tendBirth is keepBirth when it is time for it. Until the registry is loaded
// it cannot be written to.
func (t *Trail) tendBirth(ctx context.Context) {
	now := time.Now()
	if now.Before(t.born.due) {
		return
	}
	if err := t.keepBirth(ctx); err != nil {
		t.o.Logger.Debug("audit: the birth of the trail is not recorded yet", "error", err)
		return
	}
	t.born.due = now.Add(birthEvery)
}
