package mirror

import (
	"context"
	"errors"
	"sync"
)

// A batcher has small files travel together: up if they are new here, down if
// they are new in the VFS.
type batcher struct {
	e    *Engine
	ctx  context.Context
	to   BatchPutter // nil if the VFS cannot do it
	from BatchGetter // the same
	up   *gathering[batched]
	down *gathering[wanted]

	mu      sync.Mutex
	failed  error
	blocked []string      // paths that others are in the way of
	coming  spellingIndex // of files new here
}

// A batched file is locked until it is sent.
type batched struct {
	small     Small
	print     *fingerprint
	intention intention
	hint      hint
	unlock    func()
}

func (e *Engine) newBatcher(ctx context.Context) *batcher {
	b := &batcher{e: e, ctx: ctx}
	b.to, _ = e.o.Remote.(BatchPutter)
	b.from, _ = e.o.Remote.(BatchGetter)
	b.up, b.down = gather(b.send), gather(b.fetch)
	return b
}

// take adds a path to a batch if it is a small file to be transferred. Any other
// path is left to [Engine.apply], with the VFS's file as it was seen.
func (b *batcher) take(path string, h hint) (taken bool, seen hint) {
	if b.e.ignored(path) {
		return false, h
	}
	unlock := b.e.locks.lock(path)
	item, h, ok := b.prepare(path, h)
	if ok {
		item.unlock = unlock
		b.up.add(item, int64(len(item.small.Content)))
		return true, h
	}
	want, h, ok := b.want(path, h)
	switch {
	case !ok:
		unlock()
		return false, h
	case !b.alone(want):
		unlock()
		b.block(path)
		return true, h
	}
	want.unlock = unlock
	b.down.add(want, want.remote.Size)
	return true, h
}

func (b *batcher) prepare(path string, h hint) (item batched, seen hint, ok bool) {
	known := b.e.state.get(path)
	if b.to == nil || !known.known && !h.seen && !b.e.knowsVFS() {
		return batched{}, h, false
	}
	stamp, err := b.e.folder.Stat(path)
	if err != nil || stamp.Absent() || stamp.Size > batchOne {
		return batched{}, h, false
	}
	r := remote{File: File{Path: path}}
	if known.known || h.seen || len(b.e.state.intents(path)) > 0 {
		if h, err = b.e.remoteOf(b.ctx, path, known, h); err != nil {
			return batched{}, hint{}, false
		}
		r = h.remote
	} // else a file new here is assumed to be new there: the VFS refuses it if not
	l := localStat{stamp: stamp, local: local{there: true, size: stamp.Size}}
	small, print, err := b.e.readSmall(path, l, r)
	if err != nil {
		return batched{}, h, false
	}
	l.sum, l.summed = print.sum, true
	if known, err = b.e.learn(b.ctx, path, known, l, r, h.seen); err != nil {
		return batched{}, h, false
	}
	if decide(known.base, l.local, r) != push || !known.holds() && b.e.state.twin(path) != nil {
		return batched{}, h, false
	}
	i := intent{version: expected(known.base, r), size: small.Size, sum: print.sum, at: b.e.now()}
	return batched{small: small, print: print, intention: intention{path: path, intent: i}, hint: h}, h, true
}

// flush sends the rest and waits for everything.
func (b *batcher) flush() {
	b.up.flush()
	b.down.flush()
}

// block leaves a path for later: the files of a batch are locked until it is
// sent, and one of them may be in the way.
func (b *batcher) block(path string) {
	b.e.work.add(path)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blocked = append(b.blocked, path)
}

func (b *batcher) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// send sends a batch. Files that the VFS refuses are applied one by one: it
// has something else there than was thought, or something is wrong with them.
func (b *batcher) send(list []batched) {
	files, errs, err := b.put(list)
	var again []leftover
	for i, item := range list {
		path := item.small.Path
		switch {
		case unavailable(err) || b.ctx.Err() != nil:
			b.e.work.add(path)
		case err != nil || errs[i] != nil:
			again = append(again, leftover{path, item.hint})
		default:
			b.e.count(uploads, item.small.Size)
			_ = b.e.report(b.ctx, path, b.e.stored(path, item.print, files[i])) // is in the status
		}
		item.unlock()
	}
	b.applyEach(again, err)
}

// A leftover is a file of a batch that is applied alone.
type leftover struct {
	path string
	hint hint
}

// applyEach applies files of a batch one by one, after it ended with an error. That
// matters only if the VFS is gone: other errors come again with the files.
func (b *batcher) applyEach(list []leftover, err error) {
	if !unavailable(err) {
		err = nil
	}
	for _, item := range list {
		failed := b.e.apply(b.ctx, item.path, item.hint)
		if obstructed(failed) {
			b.block(item.path)
			continue
		}
		if e := b.e.report(b.ctx, item.path, failed); unavailable(e) {
			err = e
			break
		}
	}
	if err != nil {
		b.mu.Lock()
		b.failed = err
		b.mu.Unlock()
	}
}

// intend notes all changes of a batch at once.
func (b *batcher) intend(list []batched) error {
	intentions := make([]*intention, len(list))
	for i := range list {
		intentions[i] = &list[i].intention
	}
	return b.e.state.intend(intentions...)
}

// refused forgets the intents of files that were refused outright.
func (b *batcher) refused(list []batched, why func(int) error) (err error) {
	for n := range list {
		i := &list[n].intention
		if reason := why(n); i.fresh && refusal(reason) && !stale(reason) {
			err = errors.Join(err, b.e.state.drop(i.path, i.intent))
		}
	}
	return err
}

func (b *batcher) put(list []batched) (files []File, errs []error, err error) {
	smalls := make([]Small, len(list))
	for i := range list {
		smalls[i] = list[i].small
	}
	if err := b.intend(list); err != nil {
		return nil, nil, err
	}
	err = b.e.o.Breaker.transfer(b.ctx, func(ctx context.Context) (err error) {
		files, errs, err = b.to.PutBatch(ctx, smalls)
		switch {
		case err != nil:
			return errors.Join(err, b.refused(list, func(int) error { return err }))
		case len(files) != len(list) || len(errs) != len(list):
			return errWrongContent("a batch")
		}
		if err := b.refused(list, func(i int) error { return errs[i] }); err != nil {
			return errors.Join(errLocal, err)
		}
		for i := range list {
			if errs[i] == nil && (files[i].SHA256 != list[i].print.sum || sane(files[i], smalls[i].Path) != nil) {
				return errWrongContent(smalls[i].Path)
			}
		}
		return nil
	})
	return files, errs, err
}
