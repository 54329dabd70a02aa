package mirror

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// FolderStays is the rule for a file at one end and a folder of the same name
// at the other. The folder stays, at all ends and under every rule of the mirror;
// the file goes beside it under the name of a copy that lost. It cannot be chosen.
const FolderStays Rule = "folder_stays"

// reconcile applies a path, and the obstacles in its way.
func (e *Engine) reconcile(ctx context.Context, path string, h hint) error {
	err := e.apply(ctx, path, h)
	if !obstructed(err) {
		return err
	}
	e.clearing.Lock()
	defer e.clearing.Unlock()
	if err := e.clear(ctx, path); err != nil {
		return err
	}
	if err = e.applyAsked(ctx, path); !obstructed(err) {
		return err
	}
	cleared, clearErr := e.stepAside(ctx, path)
	switch {
	case clearErr != nil:
		return clearErr
	case !cleared:
		return errors.Join(err, e.giveUpName(ctx, path))
	}
	return e.applyAsked(ctx, path)
}

// obstructed reports whether another path is in the way, at one end.
func obstructed(err error) bool {
	var obstacle *tree.ObstacleError
	return errors.As(err, &obstacle) || protocol.CodeOf(err) == protocol.AlreadyExists
}

// clear applies the paths that may be in the way of another: those above and
// below it, its twins, and those of which it is not known whether they are
// there. Most are only still to be deleted at one end.
func (e *Engine) clear(ctx context.Context, path string) error {
	var others []string
	for i := range len(path) {
		if path[i] == '/' {
			others = append(others, path[:i])
		}
	}
	others = append(others, e.state.below(path)...)
	others = append(others, e.state.twinsOf(path)...)
	others = append(others, e.state.unconfirmed()...)
	for file := range e.folder.Scan(path, 0, e.state.mirrored).Files {
		others = append(others, file)
	}
	slices.Sort(others)
	for _, other := range slices.Compact(others) {
		if other == path {
			continue
		}
		err := e.applyAsked(ctx, other)
		if obstructed(err) { // in turn by the other one, perhaps
			err = e.giveUpName(ctx, other)
		} else {
			err = e.report(ctx, other, err)
		}
		if err != nil {
			return fmt.Errorf("what is in the way of %q: %w", path, err)
		}
	}
	return nil
}

// applyAsked applies a path after the VFS was asked what it has there now.
func (e *Engine) applyAsked(ctx context.Context, path string) error {
	moment := e.state.now()
	r, err := e.statRemote(ctx, path)
	if err != nil {
		return err
	}
	return e.apply(ctx, path, hint{remote: r, moment: moment, seen: true})
}

// giveUpName drops the agreement on a file that the VFS no longer has and that
// cannot be sent, because another has taken its name meanwhile.
func (e *Engine) giveUpName(ctx context.Context, path string) error {
	defer e.locks.lock(path)()
	r, err := e.statRemote(ctx, path)
	if err != nil || r.there || !e.state.get(path).holds() {
		return err
	}
	if !r.tombstone {
		return e.state.remove(path)
	}
	return e.agree(path, localStat{}, r)
}

// stepAside ends a conflict of a file at one end with a folder at the other, at
// a path or above it. It reports whether there was one.
func (e *Engine) stepAside(ctx context.Context, path string) (done bool, err error) {
	for i := range len(path) + 1 {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if done, err = e.stepAsideAt(ctx, path[:i]); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

func (e *Engine) stepAsideAt(ctx context.Context, at string) (bool, error) {
	defer e.locks.lock(at)()
	stamp, err := e.folder.Stat(at)
	if err != nil {
		return false, err
	}
	if !stamp.Absent() {
		var below string
		err := e.o.Breaker.ask(ctx, func(ctx context.Context) error {
			f, err := e.o.Remote.Below(ctx, at)
			below = f.Path
			return err
		})
		if protocol.CodeOf(err) == protocol.FileNotFound {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return true, e.stepAsideHere(ctx, at, below)
	}
	r, err := e.statRemote(ctx, at)
	if err != nil || !r.there {
		return false, err
	}
	found := e.folder.Scan(at, 0, e.state.mirrored)
	switch {
	case len(found.Dirs) == 0:
		return false, nil
	case len(found.Files) > 0:
		return true, e.stepAsideThere(ctx, at, slices.Min(slices.Collect(maps.Keys(found.Files))), r)
	}
	if err := e.folder.RemoveEmpty(at); err != nil {
		return false, protocol.Wrap(protocol.InvalidState, err, fmt.Sprintf("%q cannot be a file: the folder %q holds what is not mirrored", at, at+"/"))
	}
	return true, nil
}

// stepAsideHere moves the file here beside the folder of the VFS.
func (e *Engine) stepAsideHere(ctx context.Context, path, below string) error {
	known := e.state.get(path)
	l, err := e.read(ctx, path, known)
	if err != nil || !l.there {
		return err
	}
	kept, err := e.keep(ctx, path, FolderStays, l)
	if err != nil {
		return err
	}
	if err := e.lose(Loser{Path: path, Rule: FolderStays, SHA256: l.sum, Size: l.size, Kept: kept,
		At: e.o.Now().UnixMilli(), Winner: Winner{Path: below}}); err != nil {
		return err
	}
	if err := e.folder.Remove(path, l.stamp); err != nil {
		return err
	}
	if known.holds() { // the VFS has no file there
		return e.state.remove(path)
	}
	return nil
}

// stepAsideThere moves the VFS's file beside the folder here.
func (e *Engine) stepAsideThere(ctx context.Context, path, below string, r remote) error {
	name := tree.ConflictName(path, "", hex.EncodeToString(r.SHA256[:]))
	if reason := tree.CheckPath(name); reason != "" {
		return fmt.Errorf("%q cannot go beside the folder %q: its new name %s", path, path+"/", reason)
	}
	if err := e.fetchBeside(ctx, path, name, r); err != nil {
		return err
	}
	if err := e.report(ctx, name, e.apply(ctx, name, hint{})); err != nil {
		return err
	}
	if err := e.lose(Loser{Path: path, Rule: FolderStays, SHA256: r.SHA256, Size: r.Size, Version: r.Version, Kept: name,
		At: e.o.Now().UnixMilli(), Winner: Winner{Path: below}}); err != nil {
		return err
	}
	return e.deleteThere(ctx, path, e.state.get(path), r)
}

// fetchBeside puts the VFS's version of a file into the folder under another
// name, if it is not there already.
func (e *Engine) fetchBeside(ctx context.Context, path, name string, r remote) error {
	there, err := e.folder.Stat(name)
	if err != nil || !there.Absent() {
		return err
	}
	fresh, err := e.folder.Create()
	if err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	defer fresh.Discard()
	f, err := e.fetch(ctx, path, r.Version, fresh)
	if err == nil && f.SHA256 != r.SHA256 {
		err = errWrongContent(path)
	}
	if err != nil {
		return err
	}
	_, err = fresh.Replace(name, tree.Stamp{})
	return err
}
