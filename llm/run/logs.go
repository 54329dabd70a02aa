package run

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
)

// A Log keeps the deeds of runs where all bridges of a cluster see them: records, in
// the order in which they were stored, for each run.
type Log interface {
	// Append stores a record behind the one numbered last, 0 for none, and returns
	// its number. It fails with 3003 if another record is the last one. After
	// another error the same record may be appended again, behind the same one.
	Append(ctx context.Context, run string, last uint64, record []byte) (uint64, error)
	// Read yields the records behind a number, and returns the number of the end.
	Read(ctx context.Context, run string, after uint64, yield func(at uint64, record []byte) error) (uint64, error)
	// Remove forgets all records of a run.
	Remove(ctx context.Context, run string) error
	// All lists the runs that have records.
	All(ctx context.Context) ([]string, error)
}

// Blobs keep packages, and the larger files of runs, where all bridges of a cluster
// see them. The content under a name never changes.
type Blobs interface {
	Put(ctx context.Context, name string, data []byte) error
	// Has reports whether there is something by a name.
	Has(ctx context.Context, name string) (bool, error)
	// Get reads the blob with a name; 4003 if there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// Remove forgets the blob with a name, if there is one.
	Remove(ctx context.Context, name string) error
	// All yields the names that there are, and since when.
	All(ctx context.Context, yield func(name string, since time.Time) bool) error
	// Sweep removes blobs that were begun before a time and never finished.
	Sweep(ctx context.Context, before time.Time) (int, error)
}

// logs are a shelf that all bridges of a cluster have in common. The entries of a
// turn for the diary and its changes of @state are one record of the run's log; the
// folders of the disk are copies.
//
// The process that has a run go on has said so in the record of the run, and that
// record's revision is its claim. It begins by a mark with its claim in the log.
// Each log record names the one before it, so no record of an earlier process is
// stored behind the mark. The mark of an earlier process may be, if it was paused
// before making it: marks of earlier claims are passed over, and a process that
// finds a mark of a later claim has lost the run.
type logs struct {
	folders
	log    Log
	blobs  Blobs
	sealer Sealer
	ctx    context.Context // of the service
	late   time.Duration   // for which one that closes still tries to keep something
	pause  func(ctx context.Context, d time.Duration) error
	logger *slog.Logger

	mu    sync.Mutex
	texts map[string]textAt // of runs at rest
}

// A textAt is a workflow.md at a revision of the record of its run.
type textAt struct {
	revision uint64
	text     []byte
}

// maxTexts bounds the texts that are remembered.
const maxTexts = 256

// errElsewhere ends runs that another bridge has go on.
var errElsewhere = errors.New("the run goes on at another bridge")

func (l *logs) take(_ context.Context, id string, claim uint64) book {
	return &logBook{logs: l, id: id, claim: claim, files: make(map[string][]piece)}
}

func (l *logs) peek(_ context.Context, id string) book {
	return &logBook{logs: l, id: id, peeks: true, files: make(map[string][]piece)}
}

// text reads the diary from the log, unless this process has the run go on: then its
// folder is as new.
func (l *logs) text(ctx context.Context, id string, live bool, revision uint64) ([]byte, error) {
	if live {
		return l.folders.text(ctx, id, live, revision)
	}
	l.mu.Lock()
	known, ok := l.texts[id]
	l.mu.Unlock()
	if ok && known.revision == revision {
		return known.text, nil
	}
	b := l.peek(ctx, id).(*logBook)
	if err := b.read(ctx, func(io.Reader) error { return nil }); err != nil {
		return nil, err
	}
	text, err := b.content(ctx, stateFile)
	if err != nil || revision == 0 {
		return text, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.texts) >= maxTexts {
		clear(l.texts)
	}
	l.texts[id] = textAt{revision, text}
	return text, nil
}

// stateFile is the file of @state that says where a run is.
const stateFile = "workflow.md"

func (l *logs) forget(ctx context.Context, id string) error {
	b := l.peek(ctx, id).(*logBook)
	if err := b.read(ctx, func(io.Reader) error { return nil }); err != nil {
		return err
	}
	for _, pieces := range b.files {
		l.drop(ctx, pieces)
	}
	return errors.Join(l.log.Remove(ctx, id), l.folders.forget(ctx, id))
}

// drop removes the blobs of pieces. Blobs that stay are swept.
func (l *logs) drop(ctx context.Context, pieces []piece) {
	for _, p := range pieces {
		if p.op != opBlob {
			continue
		}
		if err := l.blobs.Remove(ctx, string(p.data)); err != nil {
			l.logger.Debug("a file of a run that was written again is not removed yet", "error", err)
		}
	}
}
