package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// maxTurns bounds how often a path is looked at again because it changed at
// one end in the meantime.
const maxTurns = 5

// A hint is a sighting of the VFS's file, and its moment.
type hint struct {
	remote
	moment uint64 // of the state; later notes are newer
	seen   bool
}

// apply makes both ends the same at one path. Without a hint the VFS is assumed to
// have the agreed version, and refuses the change if not.
func (e *Engine) apply(ctx context.Context, path string, h hint) error {
	if e.ignored(path) {
		return nil
	}
	defer e.locks.lock(path)()
	return e.applyLocked(ctx, path, h)
}

func (e *Engine) applyLocked(ctx context.Context, path string, h hint) error {
	known := e.state.get(path)
	h, err := e.remoteOf(ctx, path, known, h)
	if err != nil {
		return err
	}
	r, seen := h.remote, h.seen
	for range maxTurns {
		var l localStat
		if l, err = e.statLocal(ctx, path, known, r); err != nil {
			return err
		}
		if known, err = e.learn(ctx, path, known, l, r, seen); err != nil {
			return err
		}
		act := decide(known.base, l.local, r)
		err = e.act(ctx, path, act, known, l, r)
		switch {
		case stale(err):
			if r, err = e.statRemote(ctx, path); err != nil {
				return err
			}
			seen = true
		case errors.Is(err, tree.ErrChanged):
		default:
			return err
		}
		known = e.state.get(path)
	}
	return fmt.Errorf("%w: it changes all the time", errUnsteady)
}

// remoteOf returns the VFS's side: the hint, if it is not outdated, else the agreed
// version, if no change is unconfirmed, else the VFS's present answer.
func (e *Engine) remoteOf(ctx context.Context, path string, known entry, h hint) (hint, error) {
	intents := e.state.intents(path)
	if h.seen && known.touched <= h.moment && !unseen(intents, h.moment) {
		return h, nil
	}
	if !known.known || known.version == 0 || unseen(intents, 0) {
		moment := e.state.now()
		r, err := e.statRemote(ctx, path)
		return hint{remote: r, moment: moment, seen: true}, err
	}
	return hint{remote: remote{there: known.holds(), tombstone: known.deleted,
		File: File{Path: path, Version: known.version, Size: known.size, SHA256: known.sum}}}, nil
}

// act carries out a decision. It returns tree.ErrChanged or a stale error if
// one end is not any more as it was when the decision was made.
func (e *Engine) act(ctx context.Context, path string, a action, known entry, l localStat, r remote) error {
	switch a {
	case nothing:
		return nil
	case agree:
		return e.agree(path, l, r)
	case forget:
		return e.state.remove(path)
	case push:
		return e.push(ctx, path, known, l, r)
	case pull:
		return e.pull(ctx, path, l, r)
	case deleteThere:
		return e.deleteThere(ctx, path, known, r)
	case deleteHere:
		return e.deleteHere(path, l, r)
	case collide:
		return e.resolve(ctx, path, known, l, r)
	}
	return fmt.Errorf("no such action: %d", a)
}

// agree notes that both ends have the same.
func (e *Engine) agree(path string, l localStat, r remote) error {
	e.observe(r.Modified)
	b := base{known: true, deleted: !r.there, version: r.Version, size: r.Size, sum: r.SHA256, at: e.now()}
	if b.deleted {
		b.sum, b.size = Sum{}, 0
	}
	return e.state.set(path, entry{base: b, print: l.print})
}

// deleteThere carries a deletion over to the VFS.
func (e *Engine) deleteThere(ctx context.Context, path string, known entry, r remote) error {
	ctx, cancel := context.WithTimeoutCause(ctx, e.o.Breaker.o.Timeout, errTooSlow)
	defer cancel()
	gone, err := e.offer(ctx, path, intent{deleted: true, version: expected(known.base, r)}, func(ctx context.Context) (File, error) {
		return e.o.Remote.Delete(ctx, path, r.Version)
	}, func(f File) error { return sane(f, path) })
	if err != nil {
		return err
	}
	e.count(deletions, 0)
	gone.Deleted = true
	return e.agree(path, localStat{}, remoteOf(gone))
}

// deleteHere carries a deletion over to the folder.
func (e *Engine) deleteHere(path string, l localStat, r remote) error {
	if _, err := e.intend(path, intent{inward: true, deleted: true, version: r.Version}); err != nil {
		return err
	}
	if err := e.folder.Remove(path, l.stamp); err != nil {
		return err
	}
	e.count(deletions, 0)
	return e.agree(path, localStat{}, r)
}
