package run

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
)

// A Log stores the records of runs for all bridges of a cluster, for each run in the
// order of storage.
type Log interface {
	// Append stores a record behind the record with number last, 0 for none, and
	// returns its number. It fails with 3003 if another record is the last one. After
	// another error the same record may be appended again, behind the same one.
	Append(ctx context.Context, run string, last uint64, record []byte) (uint64, error)
	// Read yields the records behind a number, and returns the number of the end.
	Read(ctx context.Context, run string, after uint64, yield func(at uint64, record []byte) error) (uint64, error)
	// Remove deletes all records of a run.
	Remove(ctx context.Context, run string) error
	// All lists the runs that have records.
	All(ctx context.Context) ([]string, error)
}

// Blobs store packages, and the larger files of runs, for all bridges of a cluster. The
// content under a name never changes.
type Blobs interface {
	Put(ctx context.Context, name string, data []byte) error
	// Has reports whether there is a blob with a name.
	Has(ctx context.Context, name string) (bool, error)
	// Get reads the blob with a name; 4003 if there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// Remove deletes the blob with a name, if there is one.
	Remove(ctx context.Context, name string) error
	// All yields the names of all blobs, with the times of their storage.
	All(ctx context.Context, yield func(name string, since time.Time) bool) error
	// Sweep removes blobs that were begun before a time and never finished.
	Sweep(ctx context.Context, before time.Time) (int, error)
}

// logs is the shelf of a cluster. The diary entries of a turn and its changes of @state
// are one record of the run's log; the folders on the disk are copies.
//
// The process that runs a run has stored its name in the record of the run, and the
// revision of that record is its claim. It first appends a mark with its claim to the
// log. Each log record names the one before it, so no record of an earlier process is
// stored behind the mark. Only the mark of an earlier process may be, if that process
// was paused before it: marks of earlier claims are skipped, and a process that finds a
// mark of a later claim has lost the run.
type logs struct {
	folders
	log    Log
	blobs  Blobs
	sealer Sealer
	ctx    context.Context // of the service
	late   time.Duration   // time for the last writes of a closing service
	pause  func(ctx context.Context, d time.Duration) error
	logger *slog.Logger

	mu    sync.Mutex
	texts map[string]textAt // texts of runs at rest
}

// A textAt is the text of workflow.md at a revision of the run's record.
type textAt struct {
	revision uint64
	text     []byte
}

// maxTexts is the greatest number of cached texts.
const maxTexts = 256

// errElsewhere is the error of a run that another bridge runs.
var errElsewhere = errors.New("the run goes on at another bridge")

func (l *logs) take(_ context.Context, id string, claim uint64) book {
	return &logBook{logs: l, id: id, claim: claim, files: make(map[string][]piece)}
}

func (l *logs) peek(_ context.Context, id string) book {
	return &logBook{logs: l, id: id, peeks: true, files: make(map[string][]piece)}
}

// text returns the workflow.md of a run: from the folder if this process runs the run,
// and else rebuilt from the log.
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

// stateFile is the file of @state with the position of the run.
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

// drop removes the blobs of pieces. Blobs that cannot be removed are swept later.
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
