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

// A shelf stores the diaries of runs and the files of @state: in folders without a
// cluster, in logs for all bridges of a cluster.
type shelf interface {
	// make prepares the storage of a new run.
	make(id string) error
	// take opens a run for this process, its only writer. The claim is the revision of
	// the record that names the process.
	take(ctx context.Context, id string, claim uint64) book
	// peek opens the diary of a run for reading, while it may be written.
	peek(ctx context.Context, id string) book
	// text returns the workflow.md of a run: with live, of a run that runs here; with
	// the revision of its record, of a run at rest; with 0, of a run that runs at
	// another bridge.
	text(ctx context.Context, id string, live bool, revision uint64) ([]byte, error)
	// forget removes the diary and the files of a run.
	forget(ctx context.Context, id string) error
}

// A book stores the diary and the files of one run.
type book interface {
	// read yields the diary so far, piece by piece.
	read(ctx context.Context, yield func(io.Reader) error) error
	// cut truncates the diary to size bytes, to remove an incomplete entry.
	cut(size int64) error
	// add appends a piece to the diary. During an outage of the network it waits, until
	// ctx ends.
	add(ctx context.Context, piece []byte, when when) error
	// state opens the files of @state. Call it after read.
	state(ctx context.Context) (mount.FS, error)
	// close stores all pending additions, if that is possible.
	close() error
}

// A when is the time by which a piece of a diary must be durable.
type when int

const (
	// soon: together with the next piece.
	soon when = iota
	// now: before add returns. The piece must survive the process.
	now
	// lasting: like now, and the piece must survive a power failure.
	lasting
)

// folders is the shelf of folders, one for each run.
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

// A folderBook stores the diary of a run in a file, to which it only appends.
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
