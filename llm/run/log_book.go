package run

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A logBook keeps one run in a log.
type logBook struct {
	*logs
	id    string
	claim uint64
	peeks bool // nothing is written

	mu      sync.Mutex
	last    uint64             // number of the last record
	groups  int                // number of groups so far
	lost    error              // error after which no record can be added
	pages   []byte             // of the diary, not stored yet
	changes []piece            // of files, not stored yet
	dropped []piece            // replaced by the changes
	files   map[string][]piece // the pieces of each file
}

// read writes the mark by which this process takes the run, and reads all records
// before it.
func (b *logBook) read(ctx context.Context, yield func(io.Reader) error) error {
	each := func(at uint64, record []byte) error {
		b.last = at
		return b.take(record, yield)
	}
	for {
		last, err := b.log.Read(ctx, b.id, b.last, each)
		if err != nil {
			return err
		}
		b.last = max(b.last, last)
		if b.peeks {
			return nil
		}
		if b.claim != 0 && b.groups == 0 {
			return protocol.Errorf(protocol.StoreUnavailable, "what belongs to the run is on the disk of another bridge, which moves it when it starts").With("run_id", b.id)
		}
		mark := binary.AppendUvarint([]byte{recordMark}, b.claim)
		last, err = b.log.Append(ctx, b.id, b.last, mark)
		if protocol.CodeOf(err) == protocol.RevisionConflict {
			continue // another writer was first
		}
		if err == nil {
			b.last = last
		}
		return err
	}
}

// take applies a record of the log.
func (b *logBook) take(record []byte, yield func(io.Reader) error) error {
	if len(record) == 0 {
		return errors.New("a record without a kind")
	}
	kind, rest := record[0], record[1:]
	switch kind {
	case recordMark:
		return b.heard(rest)
	case recordGroup:
	default:
		return fmt.Errorf("a record of kind %d", kind)
	}
	pages, sealed, err := field(rest)
	if err != nil {
		return err
	}
	if len(sealed) > 0 {
		plain, err := b.sealer.Open(sealed, b.purpose())
		if err != nil {
			return err
		}
		if err := b.replay(plain); err != nil {
			return err
		}
	}
	b.groups++
	if len(pages) == 0 {
		return nil
	}
	return yield(bytes.NewReader(pages))
}

// heard checks the mark of another process.
func (b *logBook) heard(mark []byte) error {
	claim, size := binary.Uvarint(mark)
	if size <= 0 {
		return errors.New("a mark that is cut off")
	}
	if !b.peeks && claim > b.claim {
		return errElsewhere
	}
	return nil
}

func (b *logBook) cut(size int64) error { return nil } // records are whole

// maxPending bounds the pages that wait for the next flush, in bytes.
const maxPending = 1 << 20

// add implements [book].
func (b *logBook) add(ctx context.Context, page []byte, when when) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost != nil {
		return b.lost
	}
	b.pages = append(b.pages, page...)
	if when == soon && len(b.pages) < maxPending {
		return nil
	}
	err := b.flush(ctx)
	if err != nil && b.lost == nil {
		b.pages = b.pages[:len(b.pages)-len(page)] // take back the failed addition
	}
	return err
}

const (
	lateFlush = 5 * time.Second

	firstFlushPause, longestFlushPause = 50 * time.Millisecond, 2 * time.Second
)

// flush stores the pending pages and changes. While the store is unavailable it waits,
// until ctx ends or the service closes. The caller holds b.mu.
func (b *logBook) flush(ctx context.Context) error {
	if len(b.pages) == 0 && len(b.changes) == 0 || b.lost != nil {
		return b.lost
	}
	record, err := b.encode()
	if err != nil {
		return err
	}
	ctx, cancel := until(ctx, b.ctx, b.late)
	defer cancel()
	for wait := firstFlushPause; ; wait = min(2*wait, longestFlushPause) {
		last, err := b.log.Append(ctx, b.id, b.last, record)
		switch protocol.CodeOf(err) {
		case "":
			b.last, b.pages, b.changes = last, nil, nil
			b.groups++
			b.drop(ctx, b.dropped)
			b.dropped = nil
			return nil
		case protocol.RevisionConflict:
			if err := b.pass(ctx); err != nil {
				return err
			}
		case protocol.StoreUnavailable:
			if b.pause(ctx, wait) != nil {
				return err
			}
		default:
			return err
		}
	}
}

// pass skips late marks of earlier owners of the run. Any other record means that
// another bridge owns the run now.
func (b *logBook) pass(ctx context.Context) error {
	last, err := b.log.Read(ctx, b.id, b.last, func(_ uint64, record []byte) error {
		if len(record) == 0 || record[0] != recordMark {
			return errElsewhere
		}
		return b.heard(record[1:])
	})
	switch {
	case errors.Is(err, errElsewhere) || err == nil && last <= b.last:
		b.lost = errElsewhere
		return b.lost
	case err != nil:
		return err
	}
	b.last = last
	return nil
}

// until returns ctx, which also ends a while after another context.
func until(ctx, other context.Context, late time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, func() {
		timer := time.AfterFunc(late, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

func (b *logBook) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.peeks {
		return nil
	}
	return b.flush(context.Background())
}
