package vfs

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// StoreOptions configure a [Store]. Records and Blobs are needed; zero values
// of the others mean the defaults.
type StoreOptions struct {
	Records records.Table[Record]
	Blobs   Blobs
	// Atomic makes all changes or none, up to 1000. Without it each change is made alone.
	Atomic func(ctx context.Context, changes []Change) error
	// CatchUp waits until the records show what other bridges have stored before the call.
	// Nil: they always do.
	CatchUp func(ctx context.Context) error

	MaxFile int64 // bytes of one file, default 4 GiB
	Quota   int64 // bytes of a group, all kept versions together; default 16 GiB
	// Allot is the room that a group has together with others, by a name of it; "" if it has
	// none but its own. Nil: no group has.
	Allot    func(space protocol.SpaceID, group string) (name string, bytes int64)
	Files    int // files of a group, deleted ones that are remembered included; default 1 000 000
	Versions int // kept of a file, default 10

	Remember   time.Duration // how long a deleted file is remembered, default 30 days
	Grace      time.Duration // how long a blob that no record names is kept, default 1 hour
	GCInterval time.Duration // between two rounds of garbage collection, default 10 minutes

	Log        *slog.Logger
	Registerer prometheus.Registerer // optional
	Now        func() time.Time
}

func (o *StoreOptions) setDefaults() {
	orDefault(&o.MaxFile, 4<<30)
	orDefault(&o.Quota, 16<<30)
	orDefault(&o.Files, 1_000_000)
	orDefault(&o.Versions, 10)
	orDefault(&o.Remember, 30*24*time.Hour)
	orDefault(&o.Grace, time.Hour)
	orDefault(&o.GCInterval, 10*time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// A Store keeps files: contents in blobs, everything else in records.
//
// A file's content is written first and its record then, so a record never
// names a content that is not durable. A crash in between leaves a blob that no
// record names, which is collected.
type Store struct {
	opts    StoreOptions
	index   *index
	batches batchWriter
	metrics *metrics
	swept   time.Time // when sweep has done something
	changed func(protocol.SpaceID, File)
	uploads uploads
}

// NewStore makes a store. It follows its table from then on, so it comes
// before the table is loaded; [Store.Run] comes after.
func NewStore(o StoreOptions) *Store {
	o.setDefaults()
	s := &Store{opts: o, index: newIndex(o.Allot), metrics: newMetrics(o.Registerer), uploads: uploads{byID: make(map[string]*Record), adding: make(map[string]bool)}}
	s.batches.blobs, s.batches.index = o.Blobs, s.index
	s.metrics.usage(o.Registerer, s.total)
	o.Records.OnChange(s.index.changed)
	o.Records.OnChange(s.uploads.changed)
	return s
}

// OnChange has f told of every version that is made by this store, and not of
// those that other bridges make. It must not block, and comes before the store
// is used.
func (s *Store) OnChange(f func(in protocol.SpaceID, f File)) { s.changed = f }

// tell reports a new version to the listener of [Store.OnChange].
func (s *Store) tell(r *Record) File {
	f := r.file(r.current())
	if s.changed != nil && r.Upload == nil {
		s.changed(r.Space, f)
	}
	return f
}

// Space returns the files of one space.
func (s *Store) Space(space protocol.SpaceID) *Space {
	if space == "" {
		space = protocol.DefaultSpace
	}
	return &Space{store: s, space: space}
}

// total is the number of files, and how many bytes they have in all kept
// versions.
func (s *Store) total() (files int, bytes int64) {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	for id, g := range s.index.byGroup {
		if id.space == staging {
			continue
		}
		files += g.live
		bytes += g.used
	}
	return files, bytes
}

// A Space are the files of one space. It implements [Files], [Batcher],
// [Snapshots] and [Meter].
type Space struct {
	store *Store
	space protocol.SpaceID
}

// shows reports whether there is something, now or once the records show what other
// bridges have confirmed to their callers.
func (s *Store) shows(ctx context.Context, there func() bool) bool {
	if there() {
		return true
	}
	if s.opts.CatchUp == nil {
		return false
	}
	_ = s.opts.CatchUp(ctx) // while NATS is away, the present knowledge has to do
	return there()
}

// ByID finds a file of a group by its id.
func (s *Space) ByID(ctx context.Context, group, id string) (f File, err error) {
	s.store.shows(ctx, func() bool {
		f, err = s.byID(group, id)
		return err == nil
	})
	return f, err
}

func (s *Space) byID(group, id string) (File, error) {
	x := s.store.index
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.byID[id]
	if r == nil || r.Space != s.space || r.Group != group || !r.live() {
		return File{}, protocol.Errorf(protocol.FileNotFound, "group %q has no file with the id %q", group, id).
			With("group_name", group).With("file_id", id)
	}
	return r.file(r.current()), nil
}

// Groups lists the names of the groups that have files.
func (s *Space) Groups() []string { return s.store.index.groups(s.space) }

// Stat implements [Files].
func (s *Space) Stat(ctx context.Context, group, path string) (File, error) {
	r, v, err := s.find(ctx, group, path, 0)
	if err != nil {
		return File{}, err
	}
	return r.file(v), nil
}

// find looks up a version of a file, 0 for the current one.
func (s *Space) find(ctx context.Context, group, path string, version uint64) (r *Record, v *Version, err error) {
	if err := checkNames(ctx, group, path); err != nil {
		return nil, nil, err
	}
	s.store.shows(ctx, func() bool {
		r, v, err = s.known(group, path, version)
		return err == nil
	})
	return r, v, err
}

func (s *Space) known(group, path string, version uint64) (*Record, *Version, error) {
	r, _, ok := s.store.opts.Records.Get(recordKey(s.space, group, path))
	if version == 0 {
		if !ok || !r.live() {
			return nil, nil, NoFile(group, path)
		}
		return r, r.current(), nil
	}
	if ok {
		if v := r.at(version); v != nil && !v.Deleted {
			return r, v, nil
		}
	}
	return nil, nil, NoVersion(path, version)
}

func checkNames(ctx context.Context, group, path string) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := CheckGroup(group); err != nil {
		return err
	}
	_, err := CleanPath(path)
	return err
}

// ended is the 4001 of a context that has ended.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return protocol.Wrap(protocol.VFSUnavailable, err, "the VFS did not answer in time")
	}
	return nil
}

// Open implements [Files].
func (s *Space) Open(ctx context.Context, group, path string, version uint64) (io.ReadSeekCloser, File, error) {
	r, v, err := s.find(ctx, group, path, version)
	if err != nil {
		return nil, File{}, err
	}
	reader, err := s.store.open(ctx, r, v)
	if err != nil {
		return nil, File{}, err
	}
	return reader, r.file(v), nil
}

// Delete implements [Files].
func (s *Space) Delete(ctx context.Context, group, path string, ifVersion uint64) (File, error) {
	if err := checkNames(ctx, group, path); err != nil {
		return File{}, err
	}
	if _, _, err := s.find(ctx, group, path, 0); err != nil {
		return File{}, err
	}
	for range records.Attempts {
		r, revision, ok := s.store.opts.Records.Get(recordKey(s.space, group, path))
		if !ok || !r.live() {
			return File{}, NoFile(group, path)
		}
		if current := r.current().Number; ifVersion != 0 && ifVersion != current {
			return File{}, VersionConflict(path, ifVersion, current)
		}
		next, err := s.store.bury(ctx, r, revision)
		if !records.Raced(err) {
			return next, err
		}
	}
	return File{}, tooContended(path)
}

// bury adds the version that says a file is gone.
func (s *Store) bury(ctx context.Context, r *Record, revision uint64) (File, error) {
	s.index.mu.Lock()
	now := s.opts.Now()
	g := s.index.group(r.Space, r.Group)
	number := s.index.number(now)
	g.inFlight[number] = struct{}{}
	s.index.mu.Unlock()
	next := r.with(Version{Number: number, Modified: now.UnixMilli(), Deleted: true}, s.opts.Versions+1)
	_, err := s.opts.Records.Update(ctx, r.key(), next, revision)
	s.index.mu.Lock()
	delete(g.inFlight, number)
	s.index.settled.Broadcast()
	s.index.mu.Unlock()
	if err != nil {
		return File{}, err
	}
	return s.tell(next), nil
}

// List implements [Files].
func (s *Space) List(ctx context.Context, group, prefix, cursor string, limit int, deleted bool) ([]File, string, error) {
	return s.list(ctx, group, prefix, cursor, limit, func(r *Record) (*Version, error) {
		if !deleted && !r.live() {
			return nil, nil
		}
		return r.current(), nil
	})
}

// list lists the versions that pick chooses, nil for none.
func (s *Space) list(ctx context.Context, group, prefix, cursor string, limit int, pick func(*Record) (*Version, error)) (files []File, next string, err error) {
	if err := ended(ctx); err != nil {
		return nil, "", err
	}
	if err := CheckGroup(group); err != nil {
		return nil, "", err
	}
	if err := cleanPrefix(prefix); err != nil {
		return nil, "", err
	}
	if limit <= 0 {
		limit = DefaultLimit
	}
	s.store.shows(ctx, func() bool {
		files, next, err = s.listed(group, prefix, cursor, min(limit, MaxLimit), pick)
		return len(files) > 0 || err != nil || cursor != ""
	})
	return files, next, err
}

func (s *Space) listed(group, prefix, cursor string, limit int, pick func(*Record) (*Version, error)) (files []File, next string, err error) {
	x := s.store.index
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.byGroup[groupID{s.space, group}]
	if g == nil {
		return nil, "", nil
	}
	g.order.settle(func(path string) bool { return g.files[path] != nil })
	g.order.from(prefix, cursor, func(path string) bool {
		r := g.files[path]
		if r == nil {
			return true
		}
		var v *Version
		if v, err = pick(r); err != nil || v == nil {
			return err == nil
		}
		if len(files) == limit {
			next = files[limit-1].Path
			return false
		}
		files = append(files, r.file(v))
		return true
	})
	if err != nil {
		return nil, "", err
	}
	return files, next, nil
}

// size is the number of files that a group has, and the bytes of their kept versions.
func (s *Space) size(group string) (files int, bytes int64) {
	x := s.store.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if g := x.byGroup[groupID{s.space, group}]; g != nil {
		return g.live, g.used
	}
	return 0, 0
}

// Usage implements [Meter].
func (s *Space) Usage(ctx context.Context) (Usage, error) {
	if err := ended(ctx); err != nil {
		return Usage{}, err
	}
	room := s.store.opts.Blobs.Room()
	x := s.store.index
	x.mu.Lock()
	defer x.mu.Unlock()
	var u Usage
	for key, g := range x.byGroup {
		if key.space == s.space {
			u.Used += g.used
		}
	}
	if room >= 0 {
		u.Total = u.Used + room
	}
	return u, nil
}

func tooContended(path string) error {
	return protocol.Errorf(protocol.RevisionConflict, "file %q is being changed by too many at once", strings.Clone(path)).With("path", path)
}
