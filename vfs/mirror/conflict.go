package mirror

import (
	"context"
	"encoding/hex"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// resolve lets one side of a conflict win. The copy of the other is safe
// before anything happens to it.
func (e *Engine) resolve(ctx context.Context, path string, known entry, l localStat, r remote) error {
	if l.there && !l.summed {
		if _, err := e.read(ctx, path, known); err != nil {
			return err
		}
		return tree.ErrChanged // now it can be judged
	}
	rule := e.ruleOf(path)
	loser := Loser{Path: path, Rule: rule, At: e.o.Now().UnixMilli()}
	if rule.localWins(l.local, r) {
		loser.SHA256, loser.Size, loser.Version, loser.Deleted = r.SHA256, r.Size, r.Version, !r.there
		loser.Winner = Winner{SHA256: l.sum, Deleted: !l.there}
		if err := e.lose(loser); err != nil {
			return err
		}
		if l.there {
			return e.push(ctx, path, known, l, r)
		}
		return e.deleteThere(ctx, path, known, r)
	}
	loser.SHA256, loser.Size, loser.Deleted = l.sum, l.size, !l.there
	loser.Winner = Winner{SHA256: r.SHA256, Version: r.Version, Deleted: !r.there}
	if l.there {
		var err error
		if loser.Kept, err = e.keep(ctx, path, rule, l); err != nil {
			return err
		}
	}
	if err := e.lose(loser); err != nil {
		return err
	}
	if r.there {
		return e.pull(ctx, path, l, r)
	}
	return e.deleteHere(path, l, r)
}

func (e *Engine) ruleOf(path string) Rule {
	if rule := e.o.RuleOf(path); rule != "" {
		return rule
	}
	return e.o.Rule
}

// lose notes the losing copy before it is replaced, as the outcome of that may
// never be learned. A copy that loses in several attempts is reported once.
func (e *Engine) lose(l Loser) error {
	fresh, err := e.state.lost(l)
	if err != nil || !fresh {
		return err
	}
	e.count(conflicts, 0)
	e.o.Log.Warn("file changed at both ends", "path", l.Path, "rule", l.Rule)
	e.o.OnConflict(l)
	return nil
}

// keep makes a copy of the file here that is about to lose: beside it if both
// are to be kept, else among the versions.
func (e *Engine) keep(ctx context.Context, path string, rule Rule, l localStat) (string, error) {
	file, stamp, err := e.folder.Open(path)
	if err != nil {
		return "", tree.ErrChanged
	}
	defer file.Close()
	if stamp != l.stamp {
		return "", tree.ErrChanged
	}
	source := &steady{ctx: ctx, file: file, before: stamp}
	sum := hex.EncodeToString(l.sum[:])
	origin := e.o.Origin
	if rule == FolderStays {
		origin = "" // the name is the same at every end
	}
	name := tree.ConflictName(path, origin, sum)
	if rule != KeepBoth && rule != FolderStays || tree.CheckPath(name) != "" { // a path may be too long to have anything added
		return e.folder.Keep(source, sum)
	}
	there, err := e.folder.Stat(name)
	if err != nil || !there.Absent() {
		return name, err // kept before, by an attempt that did not come to an end
	}
	copied, err := e.folder.Create()
	if err != nil {
		return "", err
	}
	defer copied.Discard()
	if _, err := copied.ReadFrom(source); err != nil {
		return "", err
	}
	if _, err := copied.Replace(name, tree.Stamp{}); err != nil {
		return "", err
	}
	e.work.add(name)
	e.Wake()
	return name, nil
}

// Losers lists the copies that lost conflicts, latest last.
func (e *Engine) Losers() []Loser {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	return append([]Loser(nil), e.state.losers...)
}

// errWrongContent is the error of a content that differs from the VFS's description of
// it.
func errWrongContent(path string) error {
	return protocol.Errorf(protocol.SyncFailed, "the VFS sends something else than %q", path).With("path", path)
}
