package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// RunBlobs keep packages of workflows, and the larger files of their runs, in an
// object bucket, by names that their writers choose. The content under a name never
// changes.
type RunBlobs struct{ blobs *Blobs }

// OpenRunBlobs makes the bucket if it is not there.
func (s *Store) OpenRunBlobs(ctx context.Context) (*RunBlobs, error) {
	blobs, err := s.openBucket(ctx, "runblobs", "packages of workflows and files of runs")
	return &RunBlobs{blobs}, err
}

// Put keeps data under a name. A blob that has the name already stays.
func (b *RunBlobs) Put(ctx context.Context, name string, data []byte) error {
	if there, err := b.Has(ctx, name); there || err != nil {
		return err
	}
	session := b.blobs.store.state.current()
	during, cancel := session.during(ctx)
	defer cancel()
	o, err := b.blobs.begin(during, name)
	if err != nil {
		return explainBlob(err)
	}
	defer o.Abort()
	if _, err := o.Write(data); err != nil {
		return err
	}
	_, err = o.Commit(vfs.Sum{})
	return err
}

// Has reports whether there is something by a name.
func (b *RunBlobs) Has(ctx context.Context, name string) (bool, error) {
	_, err := b.blobs.info(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return false, nil
	}
	return err == nil, explainBlob(err)
}

// Get reads the blob with a name; 4003 if there is none.
func (b *RunBlobs) Get(ctx context.Context, name string) ([]byte, error) {
	r, err := b.blobs.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// Remove forgets the blob with a name, if there is one.
func (b *RunBlobs) Remove(ctx context.Context, name string) error { return b.blobs.Remove(ctx, name) }

// All yields the names that there are, and since when.
func (b *RunBlobs) All(ctx context.Context, yield func(name string, since time.Time) bool) error {
	return b.blobs.All(ctx, yield)
}

// Sweep removes blobs that were begun before a time and never finished.
func (b *RunBlobs) Sweep(ctx context.Context, before time.Time) (int, error) {
	return b.blobs.Sweep(ctx, before)
}

// AddRuns adds the logs of runs to a backup, and the blobs that they and packages are
// made of. A run may go on meanwhile, and its log then refer to other blobs: it is
// copied again, and the last copy counts.
func (s *Store) AddRuns(ctx context.Context, w *FileWriter) error {
	logs, err := s.OpenRunLogs(ctx)
	if err != nil {
		return err
	}
	blobs, err := s.OpenRunBlobs(ctx)
	if err != nil {
		return err
	}
	copied, blobbed := make(map[string]uint64), make(map[string]bool)
	for range runCopies {
		more, err := logs.add(ctx, w, copied)
		if err == nil {
			err = blobs.add(ctx, w, blobbed)
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// runCopies bounds how often a run is copied that goes on meanwhile.
const runCopies = 5

// add adds those logs to a backup that have grown since they were copied, and reports
// whether there were any.
func (l *RunLogs) add(ctx context.Context, w *FileWriter, copied map[string]uint64) (more bool, err error) {
	runs, err := l.All(ctx)
	if err != nil {
		return false, err
	}
	for _, run := range runs {
		if last, err := l.last(ctx, run); err != nil || last == copied[run] {
			if err != nil {
				return false, err
			}
			continue
		}
		var records bytes.Buffer
		last, err := l.Read(ctx, run, 0, func(_ uint64, record []byte) error {
			records.Write(binary.BigEndian.AppendUint32(nil, uint32(len(record))))
			records.Write(record)
			return nil
		})
		if protocol.CodeOf(err) == protocol.RevisionConflict {
			continue // it was forgotten
		}
		if err == nil {
			err = w.File("logs/"+run, &records)
		}
		if err != nil {
			return false, err
		}
		copied[run], more = last, true
	}
	return more, nil
}

// add adds the blobs to a backup that are not in it, each as a file.
func (b *RunBlobs) add(ctx context.Context, w *FileWriter, copied map[string]bool) error {
	list, err := b.blobs.list(ctx)
	for _, o := range list {
		if copied[o.Name] {
			continue
		}
		copied[o.Name] = true
		data, err := b.Get(ctx, o.Name)
		if protocol.CodeOf(err) == protocol.FileNotFound {
			continue // it was replaced
		}
		if err == nil {
			err = w.File("blobs/"+strings.ReplaceAll(o.Name, "/", "@"), bytes.NewReader(data)) // as package run has it
		}
		if err != nil {
			return err
		}
	}
	return err
}

// HasRuns reports whether there are logs of runs, or packages.
func (s *Store) HasRuns(ctx context.Context) (bool, error) {
	logs, err := s.OpenRunLogs(ctx)
	if err != nil {
		return false, err
	}
	blobs, err := s.OpenRunBlobs(ctx)
	if err != nil {
		return false, err
	}
	runs, err := logs.All(ctx)
	if err != nil || len(runs) > 0 {
		return true, err
	}
	list, err := blobs.blobs.list(ctx)
	return len(list) > 0, err
}

// ClearRuns removes all logs of runs, and packages.
func (s *Store) ClearRuns(ctx context.Context) error {
	logs, err := s.OpenRunLogs(ctx)
	if err != nil {
		return err
	}
	blobs, err := s.OpenRunBlobs(ctx)
	if err != nil {
		return err
	}
	if err := purge(ctx, s.state, logs.stream); err != nil {
		return unavailable(err)
	}
	list, err := blobs.blobs.list(ctx)
	for _, o := range list {
		if err := blobs.Remove(ctx, o.Name); err != nil {
			return err
		}
	}
	return err
}
