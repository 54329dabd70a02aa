package vfs

import (
	"context"
	"crypto/sha256"

	"github.com/aibridge/aibridge/protocol"
)

// maxChanges is the number of records that are written in one atomic change. More cost
// the same each, but keep others waiting.
const maxChanges = 250

// PutBatch implements [Batcher]: all contents go into one blob, and the
// records are written together.
func (s *Space) PutBatch(ctx context.Context, group string, batch []Content) ([]Result, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if err := CheckGroup(group); err != nil {
		return nil, err
	}
	if err := CheckBatch(batch); err != nil {
		return nil, err
	}
	results := make([]Result, len(batch))
	todo, later := s.begin(ctx, group, batch, results)
	s.finish(ctx, todo, results)
	for _, i := range later {
		w := s.writingOf(group, &batch[i])
		results[i].File, results[i].Err = w.run(ctx)
	}
	return results, nil
}

// CheckBatch refuses with 1004 a batch that is too large.
func CheckBatch(batch []Content) error {
	bytes := 0
	for i := range batch {
		bytes += len(batch[i].Data)
	}
	if len(batch) > MaxBatchFiles || bytes > MaxBatchBytes {
		return protocol.Errorf(protocol.PayloadTooLarge, "a batch may have %d files and %d bytes", MaxBatchFiles, MaxBatchBytes)
	}
	return nil
}

// A batched writing is one of a batch, by its index there.
type batched struct {
	*writing
	i int
}

// begin checks a batch and reserves the room and the versions of its files. It returns
// the files to write now; those named again in the same batch come later.
func (s *Space) begin(ctx context.Context, group string, batch []Content, results []Result) (todo []batched, later []int) {
	seen, known := make(map[string]bool, len(batch)), make(sizes)
	for i := range batch {
		c := &batch[i]
		if err := s.checkPut(ctx, group, c.Path, c.PutOptions, c.Size); err != nil {
			results[i].Err = err
			continue
		}
		w := s.writingOf(group, c)
		if err := s.store.checkReceived(c.Path, w.content, c.PutOptions); err != nil {
			results[i].Err = err
			continue
		}
		if seen[c.Path] {
			later = append(later, i)
			continue
		}
		seen[c.Path] = true
		w.probe(ctx, known)
		switch done, err := w.reserve(); {
		case protocol.CodeOf(err) == protocol.NoSpace:
			later = append(later, i) // where room is made for it
		case err != nil || done != nil:
			results[i] = Result{deref(done), err}
		default:
			todo = append(todo, batched{w, i})
		}
	}
	return todo, later
}

func (s *Space) writingOf(group string, c *Content) *writing {
	content := &received{size: int64(len(c.Data)), sum: sha256.Sum256(c.Data), data: c.Data}
	return &writing{Space: s, group: group, path: c.Path, options: c.PutOptions, content: content}
}

// finish writes contents and records, and gives back the reservation. A file that
// another writer changed meanwhile is tried again alone.
func (s *Space) finish(ctx context.Context, todo []batched, results []Result) {
	if err := s.commitAll(ctx, todo); err != nil {
		for _, w := range todo {
			w.release()
			w.unpin()
			results[w.i].Err = err
		}
		return
	}
	for len(todo) > 0 {
		n := min(len(todo), maxChanges)
		s.finishSome(ctx, todo[:n], results)
		todo = todo[n:]
	}
}

func (s *Space) finishSome(ctx context.Context, todo []batched, results []Result) {
	err := s.writeRecords(ctx, todo)
	for _, w := range todo {
		w.release()
	}
	for _, w := range todo {
		if err == nil {
			s.store.metrics.written(w.content)
			results[w.i].File = s.store.tell(w.result)
			w.unpin()
		} else {
			results[w.i].File, results[w.i].Err = w.run(ctx)
		}
	}
}

// commitAll makes the contents of a batch durable.
func (s *Space) commitAll(ctx context.Context, todo []batched) error {
	var (
		data [][]byte
		of   = make(map[Sum]int)
	)
	for _, w := range todo {
		if c := w.content; c.where == nil && c.size > 0 {
			if _, ok := of[c.sum]; !ok {
				of[c.sum] = len(data)
				data = append(data, c.data)
			}
		}
	}
	if len(data) == 0 {
		return nil
	}
	places, err := s.store.batches.putAll(ctx, data)
	if err != nil {
		return err
	}
	for _, w := range todo {
		if c := w.content; c.where == nil && c.size > 0 {
			where := places[of[c.sum]]
			s.store.index.pinAll(where, 1)
			w.settle(where)
		}
	}
	s.store.index.pinTimes(places[0].blob, -1)
	return nil
}

func (s *Space) writeRecords(ctx context.Context, todo []batched) error {
	if s.store.opts.Atomic == nil || len(todo) < 3 { // which is cheaper one by one
		return protocol.Errorf(protocol.RevisionConflict, "each for itself")
	}
	changes := make([]Change, len(todo))
	for i, w := range todo {
		w.result = w.record()
		changes[i] = Change{w.result.key(), w.result, w.revision}
	}
	return s.store.opts.Atomic(ctx, changes)
}
