package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// A wanted file is new in the VFS. It is locked until it is here.
type wanted struct {
	path   string
	stat   localStat
	remote remote
	hint   hint
	unlock func()
}

// want reports whether the VFS's version of a path is to come here, and is
// small.
func (b *batcher) want(path string, h hint) (w wanted, seen hint, ok bool) {
	if b.from == nil || !h.seen || !h.there || h.Size > batchOne {
		return wanted{}, h, false
	}
	known := b.e.state.get(path)
	h, err := b.e.remoteOf(b.ctx, path, known, h)
	if err != nil {
		return wanted{}, hint{}, false
	}
	r := h.remote
	if !r.there || r.Size > batchOne {
		return wanted{}, h, false
	}
	l, err := b.e.statLocal(b.ctx, path, known, r)
	if err != nil {
		return wanted{}, h, false
	}
	if known, err = b.e.learn(b.ctx, path, known, l, r, h.seen); err != nil || decide(known.base, l.local, r) != pull {
		return wanted{}, h, false
	}
	if !l.there && b.e.state.twin(path) != nil {
		return wanted{}, h, false
	}
	return wanted{path: path, stat: l, remote: r, hint: h}, h, true
}

// alone reports whether no other file of a batch is in the way of a new one.
func (b *batcher) alone(w wanted) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.stat.there {
		return true
	}
	if b.coming.check(w.path) != nil {
		return false
	}
	b.coming.add(w.path)
	return true
}

// fetch brings a batch here. Files of which the VFS has another version by now,
// or that changed here meanwhile, are applied one by one.
func (b *batcher) fetch(list []wanted) {
	began := b.e.o.Now().UnixNano()
	wholes, err := b.get(list)
	arrivals := make([]*arrival, len(list))
	for i := range list {
		arrivals[i] = &arrival{wanted: &list[i], err: err}
		if err == nil {
			arrivals[i].whole = wholes[i]
			arrivals[i].err = arrivals[i].check()
		}
	}
	if err == nil {
		b.e.placeAll(arrivals, began)
	}
	var again []leftover
	for _, a := range arrivals {
		a.unlock()
		switch {
		case unavailable(err) || b.ctx.Err() != nil && a.err != nil:
			b.e.work.add(a.path)
		case a.err == nil || errors.Is(a.err, errLocal):
			_ = b.e.report(b.ctx, a.path, a.err) // is in the status
		default:
			again = append(again, leftover{a.path, a.hint})
		}
	}
	b.applyEach(again, err)
}

// get asks the VFS for the contents of a batch.
func (b *batcher) get(list []wanted) (wholes []Whole, err error) {
	paths := make([]string, len(list))
	for i := range list {
		paths[i] = list[i].path
	}
	err = b.e.o.Breaker.transfer(b.ctx, func(ctx context.Context) (err error) {
		if wholes, err = b.from.GetBatch(ctx, paths); err == nil && len(wholes) != len(paths) {
			err = errWrongContent("a batch")
		}
		return err
	})
	return wholes, err
}

// An arrival is a file that came in a batch, and its outcome.
type arrival struct {
	*wanted
	whole     Whole
	fresh     *tree.Unfinished
	intention intention
	err       error
}

// check refuses another version than the one that was decided about.
func (a *arrival) check() error {
	f := a.whole.File
	switch {
	case a.whole.Err != nil:
		return a.whole.Err
	case f.Deleted || f.Version != a.remote.Version || f.SHA256 != a.remote.SHA256,
		Sum(sha256.Sum256(a.whole.Content)) != f.SHA256:
		return errWrongContent(a.path)
	}
	return sane(f, a.path)
}

// placeAll gives the files of a batch their places: all contents are durable, and
// then all intents, before the first file here is replaced, and all of that is
// before it is noted that both ends have them.
func (e *Engine) placeAll(batch []*arrival, began int64) {
	e.saveAll(batch)
	batch = arrived(batch)
	intentions := make([]*intention, len(batch))
	for i, a := range batch {
		f := &a.remote.File
		a.intention = intention{path: a.path, intent: intent{inward: true, version: f.Version, size: f.Size, sum: f.SHA256, at: e.now()}}
		intentions[i] = &a.intention
	}
	if err := e.state.intend(intentions...); err != nil {
		for _, a := range batch {
			a.err = fmt.Errorf("%w: %w", errLocal, err)
			a.fresh.Discard()
		}
		return
	}
	replacements := make([]*tree.Replacement, len(batch))
	for i, a := range batch {
		replacements[i] = &tree.Replacement{File: a.fresh, Name: a.path, Seen: a.stat.stamp}
	}
	e.folder.ReplaceAll(replacements)
	for i, a := range batch {
		r := replacements[i]
		a.fresh.Discard()
		if a.err = r.Err; a.err == nil {
			e.count(downloads, a.whole.Size)
			a.err = e.stored(a.path, &fingerprint{taken: true, stamp: r.Stamp, sum: a.remote.SHA256, read: began}, a.remote.File)
		}
	}
}

// arrived are the files of a batch of which nothing failed so far.
func arrived(batch []*arrival) (good []*arrival) {
	for _, a := range batch {
		if a.err == nil {
			good = append(good, a)
		}
	}
	return good
}

// saveAll writes the contents of a batch to files without a place, several at
// once: a disk makes those durable together that wait for it together.
func (e *Engine) saveAll(batch []*arrival) {
	inParallel(e.o.Workers, arrived(batch), func(a *arrival) {
		var err error
		if a.fresh, err = e.save(a.whole.Content, max(a.remote.Mtime, a.whole.Mtime)); err != nil {
			a.err = fmt.Errorf("%w: %w", errLocal, err)
		}
	})
}

// inParallel does something with each of a list, several at once.
func inParallel[T any](workers int, list []T, do func(T)) {
	feed := make(chan T)
	var group sync.WaitGroup
	for range min(workers, len(list)) {
		group.Go(func() {
			for one := range feed {
				do(one)
			}
		})
	}
	for _, one := range list {
		feed <- one
	}
	close(feed)
	group.Wait()
}

// save writes a content durably to a file without a place.
func (e *Engine) save(content []byte, mtime int64) (*tree.Unfinished, error) {
	fresh, err := e.folder.Create()
	if err != nil {
		return nil, err
	}
	_, err = fresh.Write(content)
	if err == nil {
		fresh.SetTime(mtime)
		err = fresh.Save()
	}
	if err != nil {
		fresh.Discard()
		return nil, err
	}
	return fresh, nil
}
