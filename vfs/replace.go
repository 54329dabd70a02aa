package vfs

import (
	"cmp"
	"context"
	"path"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// undoWithin bounds the time in which a replacement that failed puts the former
// files back.
const undoWithin = 30 * time.Second

// Replace makes a file or folder a copy of another one, or with moves has it go
// there, and deletes all else at the target. A failure, for lack of room say, loses
// nothing: files of the target are deleted only when all of the source is in its
// place. Where a file replaces a folder, or a folder a file, the files in the way
// are set aside, in a folder beside it, and go back after a failure; a bridge that
// dies leaves them there.
//
// Either may have up to [MaxTree] files, else the error is 1004 and nothing is done.
func Replace(ctx context.Context, from, to Located, moves bool) error {
	if from.Group == to.Group && (Within(from.Path, to.Path) || Within(to.Path, from.Path)) {
		return protocol.InvalidParam("to_path", "is within the source, or the source within it")
	}
	source, err := gather(ctx, from)
	if err != nil {
		return err
	}
	if len(source) == 0 {
		return NoFile(from.Group, from.Path)
	}
	r := replacement{to: to, moves: moves}
	for i := range source {
		p := piece{from: from, to: to}
		p.from.Path = source[i].Path
		if p.from.Path != from.Path {
			p.to.Path = to.below() + strings.TrimPrefix(p.from.Path, from.below())
		}
		r.pieces = append(r.pieces, p)
	}
	return r.run(ctx)
}

// ReplaceByFolder makes a file or folder an empty folder, as [Replace] does.
func ReplaceByFolder(ctx context.Context, to Located) error {
	marker := to
	marker.Path = MarkerOf(to.Path)
	r := replacement{to: to, pieces: []piece{{to: marker}}}
	return r.run(ctx)
}

// gather lists a file, or all files of a folder.
func gather(ctx context.Context, at Located) (list []File, err error) {
	if at.Path != "" {
		f, err := at.Files.Stat(ctx, at.Group, at.Path)
		if err == nil {
			return []File{f}, nil
		}
		if protocol.CodeOf(err) != protocol.FileNotFound {
			return nil, err
		}
	}
	err = Walk(ctx, at, func(f File) error {
		if len(list) == MaxTree {
			return errTree(at)
		}
		list = append(list, f)
		return nil
	})
	return list, err
}

// A piece is one file of the source, and its place in the target. A source without
// files is the marker of a folder, which is made.
type piece struct {
	from, to Located
	obstacle bool // the files set aside cannot be beside it
	made     File
}

// put puts the piece into its place, or with moves takes it there.
func (p *piece) put(ctx context.Context, moves bool) (err error) {
	switch {
	case p.from.Files == nil:
		p.made, err = p.to.Files.Put(ctx, p.to.Group, p.to.Path, strings.NewReader(""), PutOptions{ContentType: FolderType})
	case moves:
		p.made, err = Move(ctx, p.from, p.to, PutOptions{})
	default:
		p.made, err = Copy(ctx, p.from, 0, p.to, PutOptions{})
	}
	return err
}

// takeBack undoes put.
func (p *piece) takeBack(ctx context.Context, moves bool) error {
	if moves {
		_, err := Move(ctx, p.to, p.from, PutOptions{IfVersion: new(uint64)})
		return err
	}
	_, err := p.to.Files.Delete(ctx, p.to.Group, p.to.Path, p.made.Version)
	return err
}

// A replacement is one call of [Replace].
type replacement struct {
	to     Located
	moves  bool
	pieces []piece

	left  []File  // of the target, which nothing replaces
	aside []piece // of the target, which are in the way of pieces
}

func (r *replacement) run(ctx context.Context) error {
	if err := r.plan(ctx); err != nil {
		return err
	}
	done, err := r.place(ctx)
	if err != nil {
		r.undo(ctx, done)
		return err
	}
	for i := range r.left {
		if err := r.drop(ctx, r.left[i].Path, r.left[i].Version); err != nil {
			return err
		}
	}
	for i := range r.aside {
		if err := r.drop(ctx, r.aside[i].to.Path, r.aside[i].made.Version); err != nil {
			return err
		}
	}
	return nil
}

// plan decides about the files that the target has.
func (r *replacement) plan(ctx context.Context) error {
	old, err := gather(ctx, r.to)
	if err != nil {
		return err
	}
	var now, aside Collisions
	replaced := make(map[string]bool, len(r.pieces))
	for i := range r.pieces {
		replaced[r.pieces[i].to.Path] = true
		now.Add(r.pieces[i].to.Path)
	}
	place := r.to.Path + ".replaced-" + protocol.NewID()
	for i := range old {
		switch file := old[i].Path; {
		case replaced[file]:
		case now.Check(file) == nil:
			r.left = append(r.left, old[i])
		default:
			p := piece{from: r.to, to: r.to}
			p.from.Path = file
			p.to.Path = path.Join(place, cmp.Or(strings.TrimPrefix(file, r.to.Path), path.Base(file)))
			r.aside = append(r.aside, p)
			aside.Add(file)
		}
	}
	for i := range r.pieces {
		r.pieces[i].obstacle = aside.Check(r.pieces[i].to.Path) != nil
	}
	return nil
}

// place sets the files in the way aside, and puts the pieces into their places. It
// returns how many of both together it has done.
func (r *replacement) place(ctx context.Context) (done int, err error) {
	for i := range r.aside {
		if err := r.aside[i].put(ctx, true); err != nil {
			return done, err
		}
		done++
	}
	for i := range r.pieces {
		if err := r.pieces[i].put(ctx, r.moves); err != nil {
			return done, err
		}
		done++
	}
	return done, nil
}

// undo puts back the files that were set aside. A file that was changed meanwhile stays
// as it is, and so does one that finds no room.
func (r *replacement) undo(ctx context.Context, done int) {
	if len(r.aside) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWithin)
	defer cancel()
	for i := range max(0, done-len(r.aside)) {
		if p := &r.pieces[i]; p.obstacle {
			_ = p.takeBack(ctx, r.moves) // a file that cannot go keeps its content, and the one set aside stays there
		}
	}
	for i := range min(done, len(r.aside)) {
		_ = r.aside[i].takeBack(ctx, true) // else it stays aside
	}
}

// drop deletes a file of the target, unless it is gone.
func (r *replacement) drop(ctx context.Context, path string, version uint64) error {
	_, err := r.to.Files.Delete(ctx, r.to.Group, path, version)
	if protocol.CodeOf(err) == protocol.FileNotFound {
		return nil
	}
	return err
}
