package audit

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	noteEvery  = time.Second
	trimEvery  = 10 * time.Minute
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// write stores what waits, until ctx ends.
func (t *Trail) write(ctx context.Context) {
	defer close(t.done)
	note, trim := time.NewTicker(noteEvery), time.NewTicker(trimEvery)
	defer note.Stop()
	defer trim.Stop()
	defer t.note()
	for {
		select {
		case <-t.begin:
			t.gather(ctx)
			t.store(ctx)
		case <-note.C:
			t.note()
			t.recordRepeats(t.o.Now().Add(-repeatWindow))
			t.tendBirth(ctx)
		case <-trim.C:
			if err := t.trim(ctx); err != nil && ctx.Err() == nil {
				t.o.Logger.Warn("audit: old entries are not forgotten", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// gather gives others a moment to come along.
func (t *Trail) gather(ctx context.Context) {
	long := time.NewTimer(linger)
	defer long.Stop()
	select {
	case <-long.C:
		return
	case <-ctx.Done():
		return
	case <-t.hurry:
	}
	short := time.NewTimer(lingerUrgent)
	defer short.Stop()
	select {
	case <-short.C:
	case <-ctx.Done():
	}
}

// store stores everything that waits.
func (t *Trail) store(ctx context.Context) {
	t.mu.Lock()
	b := t.pending
	t.pending = t.spare
	t.pending.reset()
	missed := t.gap
	t.gap = gap{}
	spooled, failed := t.spool.turn()
	t.written = t.taken
	t.mu.Unlock()
	if failed != nil {
		t.o.Logger.Error("audit: entries that wait are not safe from a crash", "error", failed)
	}
	if missed.entries > 0 {
		t.addGap(&b, missed)
	}
	data, entries := t.group[:0], t.entries[:0]
	for from := 0; from < len(b.ends); {
		entries = entries[:0]
		size, to := 0, from
		for ; to < len(b.ends) && (to == from || size < groupBytes-maxEntry); to++ {
			entry := b.entry(to)
			entries = append(entries, entry)
			size += len(entry)
		}
		var head Head
		data, head = t.o.Key.appendGroup(data[:0], t.head, b.at[from], entries)
		if !t.append(ctx, data) {
			return
		}
		t.progressed(head, uint64(to-from), int64(size))
		t.tell(&b, from, to, head)
		from = to
	}
	if spooled != nil {
		if err := spooled.Truncate(0); err != nil {
			t.o.Logger.Error("audit: the spool is not emptied", "error", err)
		}
	}
	t.group, t.entries = data, entries
	if cap(b.data) <= admitBytes {
		t.spare = b
	} else {
		t.spare, t.entries = batch{}, nil // what is there keeps its memory
	}
}

// addGap says in the trail itself what is not in it.
func (t *Trail) addGap(b *batch, missed gap) {
	l := line{Entry: Entry{Time: t.o.Now(), Event: "audit.gap", Code: OK, Security: true,
		Reason: "entries were not recorded because too many waited to be stored",
		Details: map[string]string{"entries": number(missed.entries),
			"from": missed.from.UTC().Format(timeFormat), "to": missed.to.UTC().Format(timeFormat)}}}
	b.data = l.append(b.data)
	b.ends = append(b.ends, len(b.data))
	b.at = append(b.at, l.Time)
	b.told = append(b.told, true)
	t.mu.Lock()
	t.taken++
	t.mu.Unlock()
	t.waiting.Add(int64(len(b.entry(len(b.ends) - 1))))
}

// append stores one group, however long that takes. It reports false when ctx
// ends before.
func (t *Trail) append(ctx context.Context, data []byte) bool {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		began := time.Now()
		err := t.o.Log.Append(ctx, data)
		t.metrics.wrote(began, err)
		if err == nil {
			if t.failing.Swap(false) {
				t.o.Logger.Info("audit: entries are stored again")
			}
			return true
		}
		if !t.failing.Swap(true) {
			t.o.Logger.Error("audit: entries cannot be stored; they wait", "error", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}

func (t *Trail) progressed(head Head, entries uint64, size int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.head = head
	t.stored += entries
	t.waiting.Add(-size)
	t.metrics.entries.Add(float64(entries))
	close(t.progress)
	t.progress = make(chan struct{})
}

// tell tells operators of the entries of security that were just stored.
func (t *Trail) tell(b *batch, from, to int, head Head) {
	for i := from; i < to; i++ {
		if !b.told[i] {
			continue
		}
		if e, err := decode(stored{json: b.entry(i)}, head.Seq-uint64(to-1-i)); err == nil {
			t.crier.tell(e, t.o.Now())
		}
	}
}

// recordRepeats records what was refused again and again, if the first time was
// before a moment.
func (t *Trail) recordRepeats(before time.Time) {
	for _, e := range t.repeats.settled(before) {
		t.record(e, false)
	}
}

// note writes the head down outside the log, if it has changed.
func (t *Trail) note() {
	if t.o.HeadFile == "" || t.noted == t.head {
		return
	}
	if err := replaceFile(t.o.HeadFile, t.o.Key.note(t.head)); err != nil {
		if !t.unnoted {
			t.o.Logger.Warn("audit: the head of the trail is not noted", "error", err)
		}
		t.unnoted = true
		return
	}
	t.noted, t.unnoted = t.head, false
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

// trim forgets entries that are too old or too many. That they were forgotten
// is an entry itself, stored before.
func (t *Trail) trim(ctx context.Context) error {
	before, through, err := t.surplus(ctx)
	if err != nil || before == 0 {
		return err
	}
	if err := t.carry(ctx, before); err != nil {
		return err
	}
	entry := line{Entry: Entry{Time: t.o.Now(), Event: trimmed, Code: OK, Kind: "bridge",
		Reason: "older or more than the trail is to keep", Details: map[string]string{"through": number(through)}}}
	var data []byte
	data, head := t.o.Key.appendGroup(nil, t.head, entry.Time, [][]byte{entry.append(nil)})
	if err := t.o.Log.Append(ctx, data); err != nil {
		return err
	}
	t.mu.Lock()
	t.head = head
	t.mu.Unlock()
	t.note()
	return t.o.Log.Trim(ctx, before)
}

// trimmed is the event that entries were forgotten, up to details.through.
const trimmed = "audit.trimmed"

// surplus finds the position of the first group to keep, 0 to keep all, and
// the sequence of the last entry before it.
func (t *Trail) surplus(ctx context.Context) (before, through uint64, err error) {
	b, err := t.o.Log.Bounds(ctx)
	if err != nil || b.Last <= b.First {
		return 0, 0, err
	}
	if t.o.KeepSize > 0 && b.Bytes > t.o.KeepSize {
		surplus := float64(b.Bytes-t.o.KeepSize)/float64(b.Bytes) + 0.1 // and some room
		before = b.First + uint64(surplus*float64(b.Last-b.First))
	}
	if t.o.KeepFor > 0 {
		at, err := t.search(ctx, b, func(g *group) bool { return t.o.Now().Sub(g.at) <= t.o.KeepFor })
		if err != nil {
			return 0, 0, err
		}
		before = max(before, at)
	}
	before = min(before, b.Last) // something must remain to go on from
	if before <= b.First {
		return 0, 0, nil
	}
	data, err := t.o.Log.Get(ctx, before-1)
	if err != nil {
		return 0, 0, err
	}
	g, err := decodeGroup(data)
	if err != nil || g.chain != t.o.Key.chain {
		return before, 0, nil //nolint:nilerr // what cannot be read is forgotten, too
	}
	return before, g.last(), nil
}

// search returns the first position whose group, and those behind it, satisfy
// a condition; one behind the last if none does. Groups that cannot be read
// count as those before them.
func (t *Trail) search(ctx context.Context, b Bounds, cond func(*group) bool) (uint64, error) {
	low, high := b.First, b.Last+1
	for low < high {
		mid := low + (high-low)/2
		g, err := t.readable(ctx, mid, high)
		if err != nil {
			return 0, err
		}
		if g == nil || cond(g) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low, nil
}

// readable is the first group that can be read from a position on, nil if
// there is none before the end.
func (t *Trail) readable(ctx context.Context, from, end uint64) (*group, error) {
	for at := from; at < end; at++ {
		data, err := t.o.Log.Get(ctx, at)
		if err != nil {
			return nil, err
		}
		if g, err := decodeGroup(slices.Clone(data)); err == nil {
			return g, nil
		}
	}
	return nil, nil
}
