package run

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aibridge/aibridge/llm/run/mount"
)

// A shelf keeps what belongs to runs besides their records: their diaries and the
// files of @state. A bridge that has its runs to itself keeps them in folders, those
// of a cluster in logs that all of them see.
type shelf interface {
	// make makes room for a new run.
	make(id string) error
	// take opens a run for this process alone, which is the only one that has it go
	// on. The claim is the revision of the record that says so.
	take(ctx context.Context, id string, claim uint64) book
	// peek opens the diary of a run that may be written meanwhile, to be read.
	peek(ctx context.Context, id string) book
	// text is the workflow.md of a run: with live, of a run that goes on here; at
	// the revision of its record, of a run at rest; at 0, of a run that goes on
	// elsewhere.
	text(ctx context.Context, id string, live bool, revision uint64) ([]byte, error)
	// forget removes everything of a run.
	forget(ctx context.Context, id string) error
}

// A book keeps the diary and the files of one run.
type book interface {
	// read yields the diary so far, piece by piece.
	read(ctx context.Context, yield func(io.Reader) error) error
	// cut forgets the diary behind so many bytes: an end that was not written whole.
	cut(size int64) error
	// add adds a piece to the diary. Where that is a matter of a network it waits until
	// the network is back, or ctx ends.
	add(ctx context.Context, piece []byte, when when) error
	// state opens the files of @state. It comes after read.
	state(ctx context.Context) (mount.FS, error)
	// close keeps all pending additions, as far as that is possible.
	close() error
}

// A when is the time by which a piece of a diary must be kept.
type when int

const (
	// soon is together with the next piece.
	soon when = iota
	// now is before anything else happens: it must outlive the process.
	now
	// lasting is the same, and it must outlive a power cut.
	lasting
)

// Folders are a shelf of folders, one for each run.
type folders struct{ dir string }

func (f folders) of(id string) string { return filepath.Join(f.dir, "runs", id) }

// stateOf is the folder of a run's @state.
func (f folders) stateOf(id string) string { return filepath.Join(f.of(id), "state") }

// diaryOf is the file of a run's diary.
func (f folders) diaryOf(id string) string { return filepath.Join(f.of(id), "diary") }

func (f folders) make(id string) error { return os.MkdirAll(f.stateOf(id), 0o700) }

func (f folders) take(_ context.Context, id string, _ uint64) book {
	return &folderBook{path: f.diaryOf(id), files: f.stateOf(id)}
}

func (f folders) peek(_ context.Context, id string) book {
	return &folderBook{path: f.diaryOf(id), files: f.stateOf(id)}
}

func (f folders) text(ctx context.Context, id string, _ bool, _ uint64) ([]byte, error) {
	state, err := mount.OpenPrivateFolder(f.stateOf(id))
	if err != nil {
		return nil, err
	}
	defer state.Close()
	return readState(ctx, state)
}

func (f folders) forget(_ context.Context, id string) error { return os.RemoveAll(f.of(id)) }

// A folderBook keeps the diary of a run in a file, which is only ever added to.
type folderBook struct {
	path  string
	files string
	size  int64 // of the whole entries
}

func (b *folderBook) read(_ context.Context, yield func(io.Reader) error) error {
	file, err := os.Open(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return yield(bufio.NewReader(file))
}

func (b *folderBook) cut(size int64) error {
	b.size = size
	if err := os.Truncate(b.path, size); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (b *folderBook) add(_ context.Context, piece []byte, when when) error {
	file, err := os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(piece, b.size) // over the remains of a failed write
	if err == nil && when == lasting {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	b.size += int64(len(piece))
	return nil
}

func (b *folderBook) state(context.Context) (mount.FS, error) {
	return mount.OpenPrivateFolder(b.files)
}

func (b *folderBook) close() error { return nil }
