package store

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	sweepLook = 1000            // chunk subjects that nothing names, looked at in one round
	sweepTime = 5 * time.Minute // of one round
)

// sweeps is the state that one round of Sweep leaves to the next.
type sweeps struct {
	sync.Mutex
	offset   int               // of the objects that have chunks, where to go on
	suspects map[string]uint64 // objects that nothing names, and the last of their chunks
}

// Sweep implements [vfs.Sweeper]: chunks that no object names and that have not grown
// since then are purged. As clocks may be set, they must not have grown since an earlier
// round either. One round looks at a part of the bucket, the next at the part after it.
//
// The metadata of an object is stored after its chunks, so the chunks are listed
// first. The leading server is asked whether an object names them, since another
// may not know of it yet.
func (b *Blobs) Sweep(ctx context.Context, before time.Time) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	b.sweeps.Lock()
	defer b.sweeps.Unlock()
	left, err := b.someChunks(ctx)
	if err != nil {
		return 0, explainBlob(err)
	}
	if err := b.spareKnown(ctx, left); err != nil {
		return 0, explainBlob(err)
	}
	if err := b.spareYoung(ctx, left, before); err != nil {
		return 0, explainBlob(err)
	}
	if len(left) == 0 {
		return 0, nil
	}
	if err := b.spareNamed(ctx, left); err != nil {
		return 0, explainBlob(err)
	}
	for nuid := range left {
		delete(b.sweeps.suspects, nuid)
		if err := purge(ctx, b.store.state, "OBJ_"+b.name, jetstream.WithPurgeSubject(b.chunksOf(nuid))); err != nil {
			return n, explainBlob(err)
		}
		n++
	}
	return n, nil
}

func (b *Blobs) chunksOf(nuid string) string { return "$O." + b.name + ".C." + nuid }

// someChunks lists the next objects that have chunks, named or not, as many as
// the server tells at once.
func (b *Blobs) someChunks(ctx context.Context) (map[string]bool, error) {
	var info struct {
		Error *apiError `json:"error"`
		Total int       `json:"total"`
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	prefix := b.chunksOf("")
	query := map[string]any{"subjects_filter": prefix + "*", "offset": b.sweeps.offset}
	if err := ask(ctx, b.store.state, "STREAM.INFO.OBJ_"+b.name, query, &info); err != nil {
		return nil, err
	}
	if info.Error != nil {
		return nil, info.Error
	}
	chunks := make(map[string]bool, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		chunks[strings.TrimPrefix(subject, prefix)] = true
	}
	if b.sweeps.offset += len(chunks); len(chunks) == 0 || b.sweeps.offset >= info.Total {
		b.sweeps.offset = 0
	}
	return chunks, nil
}

// spareKnown takes the objects out that a list has, which may lack some.
func (b *Blobs) spareKnown(ctx context.Context, left map[string]bool) error {
	if len(left) == 0 {
		return nil
	}
	list, err := b.list(ctx)
	for _, o := range list {
		delete(left, o.NUID)
	}
	return err
}

// spareYoung takes those out to whose chunks were added since, or since
// an earlier round, and those too many for one round.
func (b *Blobs) spareYoung(ctx context.Context, left map[string]bool, before time.Time) error {
	looked, suspects := 0, b.sweeps.suspects
	if suspects == nil || len(suspects) > 10*sweepLook {
		suspects = make(map[string]uint64)
		b.sweeps.suspects = suspects
	}
	for nuid := range left {
		if looked++; looked > sweepLook {
			delete(left, nuid)
			continue
		}
		last, err := lastMessage(ctx, b.store.state, "OBJ_"+b.name, b.chunksOf(nuid))
		if err != nil {
			return err
		}
		if last == nil || !last.Time.Before(before) {
			delete(left, nuid)
			delete(suspects, nuid)
		} else if suspects[nuid] != last.Sequence {
			delete(left, nuid)
			suspects[nuid] = last.Sequence
		}
	}
	return nil
}

// spareNamed takes those out that the leading server knows an object of.
func (b *Blobs) spareNamed(ctx context.Context, left map[string]bool) error {
	for next := uint64(1); len(left) > 0; {
		m, err := nextMessage(ctx, b.store.state, "OBJ_"+b.name, "$O."+b.name+".M.>", next)
		if err != nil || m == nil {
			return err
		}
		var o jetstream.ObjectInfo
		if err := json.Unmarshal(m.Data, &o); err != nil {
			return err // it may be about any
		}
		if !o.Deleted {
			delete(left, o.NUID)
		}
		next = m.Sequence + 1
	}
	return nil
}
