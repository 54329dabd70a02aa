package audit

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/aibridge/aibridge/internal/evidence"
)

const (
	noteEvery  = time.Second
	trimEvery  = 10 * time.Minute
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second

	// shipAfter is the time for which entries gather in the local log before they are
	// shipped: a record in a stream of several copies costs as much as ten calls.
	shipAfter = 20 * time.Millisecond
	// maxShipment bounds a record of several blocks, in bytes: it is one message of NATS,
	// which takes 256 KiB at least where all bridges work.
	maxShipment = 240 << 10
)

// run does the work in the background, until ctx ends.
func (t *Trail) run(ctx context.Context) {
	defer close(t.done)
	note, trim := time.NewTicker(noteEvery), time.NewTicker(trimEvery)
	defer note.Stop()
	defer trim.Stop()
	defer t.note()
	var due <-chan time.Time // for the next shipment; nil while nothing is to be shipped
	for {
		select {
		case <-t.work:
			t.tell()
			if due == nil && t.ships() {
				due = time.After(shipAfter)
			}
		case <-due:
			due = nil
			t.ship(ctx)
		case <-note.C:
			t.note()
			t.recordGap()
			t.recordRepeats(t.o.Now().Add(-repeatWindow))
			t.tendBirth(ctx)
		case <-trim.C:
			if err := t.trim(ctx); err != nil && ctx.Err() == nil {
				t.o.Logger.Warn("audit: old entries are not forgotten", "error", err)
			}
		case <-ctx.Done():
			t.tell()
			return
		}
	}
}

// tell passes stored entries about security on to operators.
func (t *Trail) tell() {
	t.mu.Lock()
	n := 0
	for n < len(t.told) && t.told[n].number <= t.stored {
		t.told[n].entry.Seq = t.head.Seq - (t.stored - t.told[n].number)
		n++
	}
	due := t.told[:n:n]
	t.told = append([]told(nil), t.told[n:]...)
	t.mu.Unlock()
	for _, d := range due {
		t.crier.tell(d.entry, t.o.Now())
	}
}

// ship takes the entries of the local log to where the trail is kept.
func (t *Trail) ship(ctx context.Context) {
	if !t.ships() {
		return
	}
	t.sending.Lock()
	defer t.sending.Unlock()
	bounds, err := t.o.Local.Bounds(ctx)
	for err == nil && t.sent < bounds.Last && ctx.Err() == nil {
		var data []byte
		last := t.sent
		if data, last, err = t.shipment(ctx, last, bounds.Last); err != nil {
			break
		}
		if !t.append(ctx, data) {
			return
		}
		t.sent = last
	}
	if err == nil {
		err = t.o.Local.Trim(ctx, t.sent+1)
	}
	if err != nil {
		t.o.Logger.Error("audit: entries cannot be shipped", "error", err)
	}
}

// shipment is the blocks of the local log behind one, up to a last one, that are shipped in one
// record, and the last of them: as many as the log takes, and one at least. Blocks can be
// concatenated: each of their groups has its length.
func (t *Trail) shipment(ctx context.Context, sent, end uint64) (data []byte, last uint64, err error) {
	most := min(maxShipment, t.o.Log.Largest())
	for last = sent; last < end; last++ {
		block, err := t.o.Local.Get(ctx, last+1)
		if err != nil {
			return nil, sent, err
		}
		if len(data) > 0 && len(data)+len(block) > most {
			break
		}
		data = append(data, block...)
	}
	return data, last, nil
}

// append stores blocks where the trail is kept, however long that takes. It
// reports false when ctx ends before.
func (t *Trail) append(ctx context.Context, data []byte) bool {
	entries, size := 0, int64(0)
	var head Head
	for g, lost := range evidence.Groups(data) {
		if lost == nil && g.Chained {
			entries, size = entries+int(g.Count()), size+int64(len(g.Sealed))
			head = Head{g.First() + uint64(g.Count()) - 1, hashGroup(g.Sealed)}
		}
	}
	for wait := firstRetry; entries > 0; wait = min(2*wait, lastRetry) {
		began := time.Now()
		err := t.o.Log.Append(ctx, data)
		t.metrics.wrote(began, err)
		if err == nil {
			break
		}
		if !t.failing.Swap(true) {
			t.o.Logger.Error("audit: entries cannot be shipped; they wait", "error", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
	if t.failing.Swap(false) {
		t.o.Logger.Info("audit: entries are shipped again")
	}
	t.shipping.Add(-size)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shipped += uint64(entries)
	if entries > 0 {
		t.shippedTo = head
	}
	close(t.progress)
	t.progress = make(chan struct{})
	return true
}

// recordGap records in the trail itself which entries it lacks, once there is room.
func (t *Trail) recordGap() {
	t.mu.Lock()
	missed := t.gap
	if missed.entries == 0 || t.waiting() > admitBytes {
		t.mu.Unlock()
		return
	}
	t.gap = gap{}
	t.mu.Unlock()
	t.record(Entry{Event: "audit.gap", Code: OK, Security: true,
		Reason: "entries were not recorded because too many waited to be stored",
		Details: map[string]string{"entries": number(missed.entries),
			"from": missed.from.UTC().Format(timeFormat), "to": missed.to.UTC().Format(timeFormat)}}, false)
}

// recordRepeats records repeated refusals, if the first one was
// before a moment.
func (t *Trail) recordRepeats(before time.Time) {
	for _, e := range t.repeats.settled(before) {
		t.record(e, false)
	}
}

// note writes the head down outside the log, if it has changed.
func (t *Trail) note() {
	if t.o.HeadFile == "" || t.noted == t.Head() {
		return
	}
	head := t.Head()
	if err := replaceFile(t.o.HeadFile, t.o.Key.note(head)); err != nil {
		if !t.unnoted {
			t.o.Logger.Warn("audit: the head of the trail is not noted", "error", err)
		}
		t.unnoted = true
		return
	}
	t.noted, t.unnoted = head, false
}

// replaceFile replaces a file whole. It is not synced: after a power cut an
// older note notices less, and no note is worse than that.
func replaceFile(path string, data []byte) error {
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // made with 0600
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	_, err = part.Write(data)
	if closed := part.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(part.Name(), path)
}
