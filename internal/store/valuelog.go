package store

import (
	"context"
	"errors"
	"time"
)

// A valueLog keeps the last value of each key in a log of changes. However many
// change at once, they are one record: one message, one sync to disk.
//
// Records overtaken by later changes make the log grow. Once the overtaken ones
// take more room than the rest, every write carries some current values over from
// the oldest records, which can then be forgotten. So the log is never rewritten at
// once, takes two to three times the room of the current values, and a removed key
// leaves nothing behind: by the time the record of its removal is the oldest, no
// value of it is left.
//
// One goroutine uses it at a time.
type valueLog struct {
	recordLog
	places placeTable // of the last values
	live   int        // bytes these take in the log
	size   int        // bytes of all records in the log

	oldest   []record   // of the log, not yet carried over
	done     uint64     // nothing before this sequence counts, 0 unknown
	sweeping chan sweep // the results of the background work; nil while there is none
	pause    time.Time  // until when it is to do nothing, after a failure

	chunk, slack int
}

const (
	sweepChunk = 4 << 20  // bytes of old records read at a time
	sweepSlack = 16 << 20 // bytes that may be wasted before anything is done
	sweepPause = 5 * time.Second
)

// maxValues bounds the changes of one write, in bytes, so that together with carried
// values a place fits into 32 bits.
const maxValues = 1 << 30

var errTooManyValues = errors.New("store: more than 1 GiB of values in one write")

func newValueLog(l recordLog) valueLog {
	return valueLog{recordLog: l, chunk: sweepChunk, slack: sweepSlack}
}

// load calls f for every value.
func (v *valueLog) load(ctx context.Context, f func(key string, value []byte) error) error {
	if v.sweeping != nil { // records purged while the log is read would be missing
		select {
		case <-v.sweeping:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	v.places, v.live, v.size = placeTable{}, 0, 0
	v.oldest, v.done, v.sweeping = nil, 0, nil
	err := v.read(ctx, func(r record) error {
		v.size += len(r.body)
		return v.apply(r)
	})
	if err != nil || v.places.len() == 0 {
		return err
	}
	return v.read(ctx, func(r record) error {
		return v.counting(r, func(key string, c *change) error { return f(key, c.value) })
	})
}

// write stores changes.
func (v *valueLog) write(ctx context.Context, values []KeyedValue) error {
	size := 0
	for _, value := range values {
		size += changeSize(value)
	}
	if size > maxValues {
		return errTooManyValues
	}
	v.tend()
	body, carried := v.carry(make([]byte, 0, size), 2*size)
	for _, value := range values { // after the values carried over: the last change of a key counts
		body = appendChange(body, value)
	}
	first, err := v.append(ctx, body)
	if err != nil {
		return err
	}
	v.size += len(body)
	for _, r := range v.oldest[:carried] {
		v.size = max(v.size-len(r.body), 0)
		v.done = r.last + 1
	}
	v.oldest = v.oldest[carried:]
	return v.apply(record{first: first, body: body})
}

// apply notes the places of the values in a record.
func (v *valueLog) apply(r record) error {
	for at := 0; at < len(r.body); {
		c, err := changeAt(r.body, at)
		if err != nil {
			return &integrityError{subject: v.stream, revision: r.first, err: err}
		}
		at = c.end
		if c.removed {
			v.live -= int(v.places.remove(c.key))
			continue
		}
		p := v.places.of(c.key)
		v.live -= int(p.size)
		p.record, p.at, p.size = r.first, uint32(c.at), uint32(c.size())
		v.live += c.size()
	}
	return nil
}

// counting calls f for the changes of a record that no later one overtook, with the key as it
// is kept anyway.
func (v *valueLog) counting(r record, f func(key string, c *change) error) error {
	for at := 0; at < len(r.body); {
		c, err := changeAt(r.body, at)
		if err != nil {
			return err
		}
		at = c.end
		p := v.places.find(c.key)
		if p == nil || p.record != r.first || p.at != uint32(c.at) {
			continue
		}
		if err := f(p.key, &c); err != nil {
			return err
		}
	}
	return nil
}

// carry appends the current values of the oldest records, of which it looks through
// at least as many bytes as given, and returns the number of those records.
func (v *valueLog) carry(body []byte, bytes int) (_ []byte, records int) {
	for bytes > 0 && records < len(v.oldest) {
		r := v.oldest[records]
		_ = v.counting(r, func(_ string, c *change) error { // was checked when the log was loaded
			body = append(body, r.body[c.at:c.end]...)
			return nil
		})
		bytes -= len(r.body)
		records++
	}
	return body, records
}

// A sweep is the background work on a log: it forgets the records before
// a sequence, and reads the ones that are the oldest now, of those that end
// before another.
type sweep struct {
	before, until uint64
	oldest        []record
	err           error
}

// tend takes over the results of the background work, and starts more if there is
// some.
func (v *valueLog) tend() {
	if v.sweeping != nil {
		select {
		case done := <-v.sweeping:
			v.sweeping = nil
			v.swept(done)
		default:
		}
	}
	if v.sweeping != nil || len(v.oldest) > 0 || time.Now().Before(v.pause) {
		return
	}
	s := sweep{before: v.done}
	if v.size > 2*v.live+v.slack {
		s.until = v.last // a value appended now has no place yet
	}
	if s.before == 0 && s.until == 0 {
		return
	}
	sweeping := make(chan sweep, 1)
	v.sweeping = sweeping
	v.store.wait.Go(func() {
		s.err = v.runSweep(&s)
		sweeping <- s
	})
}

func (v *valueLog) swept(s sweep) {
	if s.err != nil {
		v.store.log.Warn("old values cannot be cleared away", "stream", v.stream, "err", s.err)
		v.pause = time.Now().Add(sweepPause)
		return
	}
	v.done, v.oldest = 0, s.oldest
}

var errEnough = errors.New("enough")

// runSweep runs in the background. It touches nothing of the log that changes.
func (v *valueLog) runSweep(s *sweep) error {
	ctx, cancel := context.WithTimeout(v.store.run, v.store.options.LoadTimeout)
	defer cancel()
	if err := v.purgeBefore(ctx, s.before); err != nil {
		return err
	}
	if s.until == 0 {
		return nil
	}
	reader, size := partReader{stream: v.stream}, 0
	err := readStream(ctx, v.nc, v.stream, func(m message) error {
		if m.seq > s.until || size >= v.chunk {
			return errEnough
		}
		r, ok, err := reader.add(m)
		if ok {
			s.oldest = append(s.oldest, r)
			size += len(r.body)
		}
		return err
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
