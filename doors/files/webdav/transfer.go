package webdav

import (
	"context"
	"net/http"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A deed is COPY or MOVE.
type deed struct {
	source, target resource
	there          bool // something is at the target
	deep           bool // with the content of the folder
	moves          bool
}

// copyOrMove makes a resource another one's content, by reference, and with MOVE
// deletes it then.
func (q *request) copyOrMove() error {
	d := deed{moves: q.Method == "MOVE", deep: true}
	to, err := q.destination()
	if err != nil {
		return err
	}
	switch depth := q.Header.Get("Depth"); {
	case depth == "" || depth == "infinity":
	case depth == "0" && !d.moves:
		d.deep = false
	default:
		return protocol.InvalidParam("Depth", "must be infinity, or for COPY 0")
	}
	if err := q.judge(&d, to); err != nil {
		return err
	}
	err = q.carryOut(&d)
	name := "vfs.copy"
	if d.moves {
		name = "vfs.move"
	}
	q.door.Files.Tell(q.Request, q.who, name, to.group, to.path, err)
	if err != nil {
		return err
	}
	q.written(!d.there)
	return nil
}

// judge finds both ends and refuses a transfer that is not allowed.
func (q *request) judge(d *deed, to target) (err error) {
	from := q.at
	if from.root() || to.root() || from.name() == to.name() {
		return statusError{http.StatusForbidden, protocol.InvalidParam("Destination", "is the same, or the folder of all groups")}
	}
	if d.source, err = q.find(from, "vfs:read"); err != nil {
		return err
	}
	if d.source.folder { // its copy tells the names of everything in it
		if _, err := q.door.Files.Enter(q.Context(), q.who, "vfs:list", from.group); err != nil {
			return err
		}
	}
	if d.source.folder && (within(from, to) || within(to, from)) || !d.source.folder && within(from, to) {
		return statusError{http.StatusForbidden, protocol.InvalidParam("Destination", "is within the source, or the source within it")}
	}
	if err := q.condition.hold(q, d.source); err != nil {
		return err
	}
	to.slash = false
	if d.target, d.there, err = q.findMaybe(to, "vfs:list"); err != nil {
		return err
	}
	if d.there && q.Header.Get("Overwrite") == "F" {
		return precondition("Overwrite")
	}
	if err := q.inFolder(to); err != nil {
		return err
	}
	if d.moves {
		if err := q.mayEnter(from, true); err != nil {
			return err
		}
		if d.source.files, err = q.door.Files.Enter(q.Context(), q.who, "vfs:delete", from.group); err != nil {
			return err
		}
	}
	if err := q.mayEnter(to, true); err != nil {
		return err
	}
	d.target.files, err = q.door.Files.Enter(q.Context(), q.who, "vfs:write", to.group)
	return err
}

// within reports whether a target is another one or in it.
func within(a, b target) bool { return a.group == b.group && vfs.Within(a.path, b.path) }

// carryOut copies or moves the resource that judge has found. A file replaces a file
// by a newer version of it. Any other target becomes a copy of the source, as if it
// had been deleted first (RFC 4918, 9.8.4), and stays as it was if there is no room
// for that.
func (q *request) carryOut(d *deed) error {
	ctx := q.Context()
	if d.there && (d.source.folder || d.target.folder) {
		if _, err := q.door.Files.Enter(ctx, q.who, "vfs:delete", d.target.at.group); err != nil {
			return err
		}
	}
	from, to := d.source.located(), d.target.located()
	var err error
	switch {
	case d.source.folder && !d.deep:
		err = vfs.ReplaceByFolder(ctx, to)
	case d.source.folder || d.target.folder:
		err = vfs.Replace(ctx, from, to, d.moves)
	default:
		err = d.file(ctx, from, to)
	}
	if err != nil || !d.moves {
		return err
	}
	q.door.locks.gone(context.WithoutCancel(q.Context()), q.who.Home(), d.source.at.name())
	q.keepFolder(d.source.at.parent())
	return nil
}

// file copies or moves a file to where there is a file, or nothing.
func (d *deed) file(ctx context.Context, from, to vfs.Located) error {
	o := vfs.PutOptions{}
	if !d.there {
		o.IfVersion = new(uint64)
	}
	op := vfs.CopyFile
	if d.moves {
		op = vfs.Move
	}
	_, err := op(ctx, from, to, o)
	return err
}
