package caps

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// maxDocument bounds the files that describe a Cap.
const maxDocument = 64 << 20

// A recovery compares a Cap with its mirror in the VFS, and restores it from there.
type recovery struct {
	s *Service
	ref
	files    vfs.Files
	folder   string // of the Cap in the VFS, with a slash
	snapshot uint64 // 0: the files as they are

	there     map[string]vfs.File // by path in the Cap
	documents map[string][]byte   // nil: the Cap keeps its documents
	changes   []RecoveredFile     // with paths in the Cap
}

// look lists the VFS's files.
func (r *recovery) look(ctx context.Context) error {
	r.there, r.documents = make(map[string]vfs.File), make(map[string][]byte)
	snapshots, ok := r.files.(vfs.Snapshots)
	if r.snapshot != 0 && !ok {
		return protocol.InvalidParam("snapshot_id", "this VFS has no snapshots")
	}
	for cursor := ""; ; {
		var page []vfs.File
		var next string
		var err error
		if r.snapshot != 0 {
			page, next, err = snapshots.ListAt(ctx, vfs.MirrorGroup, r.folder, r.snapshot, cursor, vfs.MaxLimit)
		} else {
			page, next, err = r.files.List(ctx, vfs.MirrorGroup, r.folder, cursor, vfs.MaxLimit, false)
		}
		if err != nil {
			return err
		}
		for _, f := range page {
			if path := f.Path[min(len(r.folder), len(f.Path)):]; !f.Deleted && tree.CheckPath(path) == "" {
				r.there[path] = f
			}
		}
		if next == "" || next == cursor {
			break
		}
		cursor = next
	}
	for _, name := range documents {
		f, ok := r.there[name]
		if !ok {
			continue
		}
		content, err := r.read(ctx, f)
		if err != nil {
			return err
		}
		r.documents[name] = content
	}
	r.describe()
	return nil
}

// describe keeps the present description of an existing Cap if the snapshot lacks
// documents: it is older than the first full mirror.
func (r *recovery) describe() {
	_, exists := r.s.o.Channels.Documents(r.space, r.id)
	if !exists || len(r.there) == 0 || len(r.documents) == len(documents) {
		return
	}
	r.documents = nil
	for _, name := range documents {
		delete(r.there, name)
	}
}

// read fetches a small file.
func (r *recovery) read(ctx context.Context, f vfs.File) ([]byte, error) {
	from, found, err := r.files.Open(ctx, vfs.MirrorGroup, f.Path, f.Version)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	if found.Size > maxDocument {
		return nil, protocol.Errorf(protocol.SyncFailed, "%s is too large", f.Path)
	}
	content, err := io.ReadAll(io.LimitReader(from, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if vfs.Sum(sha256.Sum256(content)) != f.SHA256 {
		return nil, protocol.Errorf(protocol.SyncFailed, "%s is damaged", f.Path)
	}
	return content, nil
}

// compare lists the differences of the mirror: of its documents from the bridge's
// records, of other files from the Cap's folder.
func (r *recovery) compare(ctx context.Context) error {
	here, err := r.here(ctx)
	if err != nil {
		return err
	}
	for path, f := range r.there {
		sum, held := here[path]
		if held && sum == f.SHA256 {
			continue
		}
		change := RecoveredFile{Path: path, Action: "create", Checksum: f.SHA256.String(), Size: f.Size}
		if held {
			change.Action = "replace"
		}
		r.changes = append(r.changes, change)
	}
	if r.snapshot != 0 { // files of later are removed
		for path := range here {
			if _, ok := r.there[path]; !ok && ruleOf(path) == "" {
				r.changes = append(r.changes, RecoveredFile{Path: path, Action: "remove"})
			}
		}
	}
	slices.SortFunc(r.changes, func(a, b RecoveredFile) int { return cmp.Compare(a.Path, b.Path) })
	return nil
}

// here are the checksums of the files that the Cap has now.
func (r *recovery) here(ctx context.Context) (map[string]vfs.Sum, error) {
	sums := make(map[string]vfs.Sum)
	if known, ok := r.s.o.Channels.Documents(r.space, r.id); ok {
		for name, content := range known {
			sums[name] = sha256.Sum256(content)
		}
	}
	dir := r.s.folder(r.ref)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return sums, nil
	}
	folder, err := tree.Open(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	for path := range folder.Scan(".", 0, nil).Files {
		if ruleOf(path) != "" {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		sum, err := checksum(folder, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		sums[path] = sum
	}
	return sums, nil
}

func checksum(folder *tree.Folder, path string) (sum vfs.Sum, err error) {
	file, _, err := folder.Open(path)
	if err != nil {
		return sum, err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return sum, err
	}
	return vfs.Sum(h.Sum(nil)), nil
}

// shown are the changes as callers see them.
func (r *recovery) shown() []RecoveredFile {
	m := capMirror{ref: r.ref}
	list := make([]RecoveredFile, min(len(r.changes), maxShown))
	for i := range list {
		list[i] = r.changes[i]
		list[i].Path = m.path(list[i].Path)
	}
	return list
}

// carryOut makes the Cap equal to the VFS.
func (r *recovery) carryOut(ctx context.Context) error {
	if len(r.changes) == 0 {
		return nil
	}
	if r.documents != nil {
		if err := r.s.o.Channels.Restore(ctx, r.space, r.id, r.documents); err != nil {
			return err
		}
	}
	r.s.Changed(r.space, r.id) // it may be a new one
	r.s.mu.Lock()
	m := r.s.mirrors[r.ref]
	r.s.mu.Unlock()
	if m == nil {
		return nil // it is not to be mirrored, it says
	}
	engine, release, err := r.s.use(ctx, m)
	if err != nil {
		return err
	}
	defer release()
	var small []RecoveredFile
	for _, change := range r.changes {
		switch {
		case ruleOf(change.Path) != "": // is written from the bridge's records
		case change.Action != "remove" && change.Size <= maxSmall:
			small = append(small, change)
		default:
			if err := r.put(ctx, engine, change); err != nil {
				return err
			}
		}
	}
	for batch := range slices.Chunk(small, maxTogether) {
		if err := r.putAll(ctx, engine, batch); err != nil {
			return err
		}
	}
	r.s.o.Publish(r.space, r.id, "cap.vfs.recovered", struct {
		Cap   protocol.CapID `json:"cap_id"`
		Files int            `json:"files"`
	}{r.id, len(r.changes)})
	return nil
}

// put replaces one file by the VFS's version, and keeps the old one.
func (r *recovery) put(ctx context.Context, engine *mirror.Engine, change RecoveredFile) error {
	if change.Action == "remove" {
		_, err := engine.Remove(ctx, change.Path)
		if protocol.CodeOf(err) == protocol.FileNotFound {
			return nil
		}
		return err
	}
	if err := engine.KeepVersion(ctx, change.Path); err != nil {
		return err
	}
	f := r.there[change.Path]
	from, _, err := r.files.Open(ctx, vfs.MirrorGroup, f.Path, f.Version)
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = engine.WriteDated(ctx, change.Path, &verified{from: from, left: f.Size, want: f.SHA256}, f.Mtime)
	return err
}

// Files that are brought back together: how many at most, and how large each.
const (
	maxTogether = 128
	maxSmall    = 32 << 10 // bytes
)

// putAll is put for many small files. Files that cannot be read or written together
// are put one by one.
func (r *recovery) putAll(ctx context.Context, engine *mirror.Engine, batch []RecoveredFile) error {
	contents := r.readAll(ctx, batch)
	var list []*mirror.Writing
	var changes, alone []RecoveredFile
	for i, change := range batch {
		if contents[i] == nil {
			alone = append(alone, change)
			continue
		}
		if change.Action == "replace" {
			if err := engine.KeepVersion(ctx, change.Path); err != nil {
				return err
			}
		}
		changes = append(changes, change)
		list = append(list, &mirror.Writing{Path: change.Path, Content: contents[i], Mtime: r.there[change.Path].Mtime})
	}
	if err := engine.WriteAll(ctx, list); err != nil {
		return err
	}
	for i, w := range list {
		if w.Err != nil {
			alone = append(alone, changes[i])
		}
	}
	for _, change := range alone {
		if err := r.put(ctx, engine, change); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads small files whole; nil is one that is to be read alone.
func (r *recovery) readAll(ctx context.Context, batch []RecoveredFile) [][]byte {
	contents := make([][]byte, len(batch))
	if r.snapshot != 0 { // versions of the past are read one by one
		for i, change := range batch {
			contents[i], _ = r.read(ctx, r.there[change.Path]) // put reports the error
		}
		return contents
	}
	paths := make([]string, len(batch))
	for i, change := range batch {
		paths[i] = r.there[change.Path].Path
	}
	wholes, err := vfs.GetAll(ctx, r.files, vfs.MirrorGroup, paths)
	if err != nil || len(wholes) != len(batch) {
		return contents
	}
	for i, w := range wholes {
		if want := r.there[batch[i].Path]; w.Err == nil && w.File.Version == want.Version && vfs.Sum(sha256.Sum256(w.Data)) == want.SHA256 {
			contents[i] = w.Data
		}
	}
	return contents
}

// verified fails at the end if the contents differ from the expected ones.
type verified struct {
	from io.Reader
	left int64
	want vfs.Sum
	hash hash.Hash
}

func (v *verified) Read(p []byte) (int, error) {
	if v.hash == nil {
		v.hash = sha256.New()
	}
	n, err := v.from.Read(p)
	v.left -= int64(n)
	_, _ = v.hash.Write(p[:n]) // never fails
	if v.left < 0 || errors.Is(err, io.EOF) && (v.left != 0 || vfs.Sum(v.hash.Sum(nil)) != v.want) {
		return n, protocol.Errorf(protocol.SyncFailed, "a file in the VFS is damaged")
	}
	return n, err
}
