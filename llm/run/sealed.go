package run

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/run/fault"
)

// A Sealer encrypts records, each bound to its purpose.
type Sealer interface {
	Seal(plain []byte, purpose string) ([]byte, error)
	Open(sealed []byte, purpose string) ([]byte, error)
}

// A sealedDiary is a book of sealed entries: the length of each in four bytes, and the
// entry, bound to the run and its place in the diary. Entries are only appended. An
// incomplete entry at the end, left by a crash, is cut off.
type sealedDiary struct {
	book    book
	purpose string
	sealer  Sealer

	mu    sync.Mutex
	n     int   // number of entries so far
	size  int64 // bytes of the entries so far
	tools []chat.Tool
}

// maxEntry is the greatest size of an entry, in bytes.
const maxEntry = 64 << 20

// errDiary is the error of runs whose diary cannot be read or written.
func errDiary(cause error) error {
	return fault.Wrap(fault.Internal, cause, "the record of the run cannot be kept")
}

// openDiary reads a diary, entry by entry, and returns it for further entries.
func openDiary(ctx context.Context, b book, purpose string, sealer Sealer, read func(*entry)) (*sealedDiary, error) {
	d := &sealedDiary{book: b, purpose: purpose, sealer: sealer}
	if err := d.readAll(ctx, read); err != nil {
		return nil, err
	}
	if err := b.cut(d.size); err != nil {
		return nil, errDiary(err)
	}
	return d, nil
}

// readDiary reads a diary that may be written meanwhile.
func readDiary(ctx context.Context, b book, purpose string, sealer Sealer, read func(*entry)) error {
	d := &sealedDiary{book: b, purpose: purpose, sealer: sealer}
	return d.readAll(ctx, read)
}

func (d *sealedDiary) readAll(ctx context.Context, read func(*entry)) error {
	err := d.book.read(ctx, func(r io.Reader) error { return d.read(r, read) })
	if err != nil && !errors.As(err, new(*fault.Error)) {
		return errDiary(err)
	}
	return err
}

// read reads all whole entries.
func (d *sealedDiary) read(r io.Reader, read func(*entry)) error {
	for {
		e, n, err := d.next(r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return errDiary(err)
		}
		d.n++
		d.size += n
		read(e)
	}
}

// next reads the next entry.
func (d *sealedDiary) next(r io.Reader) (*entry, int64, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, 0, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxEntry {
		return nil, 0, fmt.Errorf("an entry of %d bytes", n)
	}
	sealed, err := io.ReadAll(io.LimitReader(r, int64(n))) // allocates no more than there is to read
	if err != nil {
		return nil, 0, err
	}
	if len(sealed) < int(n) {
		return nil, 0, io.ErrUnexpectedEOF
	}
	plain, err := d.sealer.Open(sealed, d.binding())
	if err != nil {
		return nil, 0, err
	}
	e := new(entry)
	if err := json.Unmarshal(plain, e); err != nil {
		return nil, 0, err
	}
	return e, int64(len(head)) + int64(n), nil
}

// binding returns the name that the next entry is sealed to: its run and its
// place in the file.
func (d *sealedDiary) binding() string { return fmt.Sprintf("%s/%d", d.purpose, d.n) }

// add writes an entry. With lasts it is durable when add returns, with all entries
// before it. add repeats failed writes until the service closes.
func (d *sealedDiary) add(e *entry, lasts bool) error {
	return d.addWithin(context.Background(), e, lasts)
}

// addWithin is add, given up when ctx ends.
func (d *sealedDiary) addWithin(ctx context.Context, e *entry, lasts bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	plain, err := json.Marshal(e)
	if err != nil {
		return errDiary(err)
	}
	sealed, err := d.sealer.Seal(plain, d.binding())
	if err != nil {
		return errDiary(err)
	}
	if len(sealed) > maxEntry {
		return fault.Errorf(fault.WriteLimit, "a turn is too large to be kept")
	}
	piece := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(sealed)), uint32(len(sealed)))
	piece = append(piece, sealed...)
	if err := d.book.add(ctx, piece, e.when(lasts)); err != nil {
		return errDiary(err)
	}
	d.n++
	d.size += int64(len(piece))
	return nil
}

// when is the time by which an entry must be kept: the end of a turn, and of a call
// that changed the world, before anything else happens.
func (e *entry) when(lasts bool) when {
	switch {
	case lasts:
		return lasting
	case e.Tools != nil, e.Effect != nil && e.Effect.Done:
		return now
	}
	return soon
}

// asked implements [diary].
func (d *sealedDiary) asked(t *turnEntry) error {
	offered := t.Tools
	if d.tools != nil && slices.EqualFunc(d.tools, offered, sameTool) {
		t.Tools, t.SameTools = nil, true
	}
	d.tools = offered
	return d.add(&entry{Turn: t}, false)
}

// sameTool reports whether two tools are equal.
func sameTool(a, b chat.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && string(a.Parameters) == string(b.Parameters)
}

// waits implements [diary].
func (d *sealedDiary) waits(w *waitEntry) error { return d.add(&entry{Wait: w}, true) }

// did implements [diary].
func (d *sealedDiary) did(t *toolsEntry) error { return d.add(&entry{Tools: t}, false) }
