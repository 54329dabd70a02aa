package run

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/protocol"
)

// A bridge without a cluster stores its runs in folders, a bridge of a cluster in logs.
// Runs in the other form, and those of a restored backup, are converted at the start.

// movedDiary is the name of the diary in a folder once the run is in a log. It is
// removed with the folder.
const movedDiary = "diary.moved"

func (f folders) movedOf(id string) string { return filepath.Join(f.of(id), movedDiary) }

// restored is the folder in which a backup has put logs or blobs.
func (f folders) restored(kind string) string { return filepath.Join(f.dir, kind) }

const (
	restoredLogs  = "logs"
	restoredBlobs = "blobs"
)

// isMoved reports whether a run was moved from this disk into a log.
func (s *Service) isMoved(id string) bool {
	_, err := os.Stat(folders{s.opts.Dir}.movedOf(id))
	return err == nil
}

// move converts the runs and packages of this disk to logs and blobs. It is idempotent.
func (s *Service) move(ctx context.Context) error {
	dir := folders{s.opts.Dir}
	err := each(dir.restored(restoredBlobs), func(name, path string) error {
		data, err := os.ReadFile(path)
		if err == nil {
			err = s.opts.Blobs.Put(ctx, blobNamed(name), data)
		}
		return err
	})
	if err == nil {
		err = each(dir.restored(restoredLogs), func(id, path string) error {
			if _, _, known := s.opts.Runs.Get(id); !known {
				return nil
			}
			return s.moveLog(ctx, id, path)
		})
	}
	if err != nil {
		return err
	}
	if err := s.moveFolders(ctx); err != nil {
		return err
	}
	return s.movePackages(ctx)
}

// each calls do for each file of a folder, if the folder exists, and removes the file
// after success.
func each(dir string, do func(name, path string) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if err := do(e.Name(), path); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return errors.Join(err, os.Remove(dir))
}

// moveLog replaces the log of a run by that of a backup.
func (s *Service) moveLog(ctx context.Context, id, path string) error {
	if err := s.opts.Logs.Remove(ctx, id); err != nil {
		return err
	}
	last := uint64(0)
	return readRecords(path, func(record []byte) (err error) {
		last, err = s.opts.Logs.Append(ctx, id, last, record)
		return err
	})
}

// readRecords reads the records of a log in a backup, each preceded by its length in
// four bytes.
func readRecords(path string, yield func(record []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for {
		var head [4]byte
		if _, err := io.ReadFull(file, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		record, err := io.ReadAll(io.LimitReader(file, int64(binary.BigEndian.Uint32(head[:]))))
		if err != nil {
			return err
		}
		if err := yield(record); err != nil {
			return err
		}
	}
}

// moveFolders converts the runs in folders to logs.
func (s *Service) moveFolders(ctx context.Context) error {
	dir := folders{s.opts.Dir}
	entries, err := os.ReadDir(dir.restored("runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if _, err := os.Stat(dir.diaryOf(e.Name())); err != nil {
			continue // a copy
		}
		if _, _, known := s.opts.Runs.Get(e.Name()); !known || s.find(e.Name()) != nil {
			continue
		}
		if err := s.moveFolder(ctx, dir, e.Name()); err != nil {
			return err
		}
		s.opts.Log.Info("a run is in the cluster now", "run", e.Name())
	}
	return err
}

// moveFolder makes the log of a run from its folder. An existing log is that of an
// interrupted attempt, and replaced.
func (s *Service) moveFolder(ctx context.Context, dir folders, id string) error {
	diary, err := os.ReadFile(dir.diaryOf(id))
	if err != nil {
		return err
	}
	if diary, err = s.whole(diary, id); err != nil {
		return err
	}
	if err := s.opts.Logs.Remove(ctx, id); err != nil {
		return err
	}
	b := s.shelf.take(ctx, id, 0).(*logBook)
	if err := b.read(ctx, func(io.Reader) error { return nil }); err != nil {
		return err
	}
	if err := b.adopt(ctx, dir); err != nil {
		return err
	}
	if err := b.add(ctx, diary, lasting); err != nil {
		return err
	}
	return os.Rename(dir.diaryOf(id), dir.movedOf(id))
}

// whole cuts off an incomplete entry that a crash has left at the end of a diary.
func (s *Service) whole(diary []byte, id string) ([]byte, error) {
	d := &sealedDiary{purpose: "run/" + id, sealer: s.opts.Sealer}
	err := d.read(strings.NewReader(string(diary)), func(*entry) {})
	return diary[:d.size], err
}

// adopt records all files of a folder as changes.
func (b *logBook) adopt(ctx context.Context, dir folders) error {
	folder, err := mount.OpenCopy(dir.stateOf(b.id))
	if err != nil {
		return err
	}
	defer folder.Close()
	var failed error
	err = folder.Walk(ctx, "", nil, func(e mount.Entry) bool {
		var data []byte
		if data, failed = e.Read(ctx, nil, maxAdopted); failed != nil {
			return false
		}
		p := piece{op: opWrite, path: e.Path, data: data}
		if len(data) > maxInline {
			p, failed = b.blob(ctx, e.Path, data)
		}
		if failed == nil {
			failed = b.change(p)
		}
		return failed == nil
	})
	return errors.Join(err, failed)
}

// maxAdopted is the greatest size of a file that is converted, in bytes.
const maxAdopted = 1 << 30

// movePackages copies the packages of this disk to the blobs.
func (s *Service) movePackages(ctx context.Context) error {
	needed := s.referredTo()
	zips, err := s.library.before(s.opts.Now().Add(fresh)) // all
	for _, sum := range zips {
		if !needed[sum] || s.library.isShared(sum) {
			continue
		}
		zip, err := os.ReadFile(s.library.path(sum))
		if err != nil {
			return err
		}
		if sha(zip) != sum {
			continue // damaged; an error appears at its use
		}
		if err := s.opts.Blobs.Put(ctx, packageBlobs+sum, zip); err != nil {
			return err
		}
		s.library.share(sum)
	}
	return err
}

// unpack converts the logs and packages of a cluster's backup to folders, for a bridge
// without a cluster.
func (s *Service) unpack(ctx context.Context) {
	dir := folders{s.opts.Dir}
	err := each(dir.restored(restoredLogs), func(id, path string) error {
		if _, _, known := s.opts.Runs.Get(id); !known {
			return nil
		}
		return s.unpackLog(ctx, dir, id, path)
	})
	if err == nil {
		err = each(dir.restored(restoredBlobs), func(name, path string) error {
			sum, ok := strings.CutPrefix(blobNamed(name), packageBlobs)
			if !ok {
				return nil // a file of a run, which unpackLog has written
			}
			zip, err := os.ReadFile(path)
			if err == nil {
				err = s.library.shelve(sum, zip)
			}
			return err
		})
	}
	if err != nil {
		s.opts.Log.Error("runs of a backup are not there yet", "error", err)
	}
}

// unpackLog converts a log to a folder.
func (s *Service) unpackLog(ctx context.Context, dir folders, id, path string) error {
	l := &logs{folders: dir, log: restoredLog{path}, blobs: restoredBlob{dir: dir.restored(restoredBlobs)}, sealer: s.opts.Sealer, ctx: ctx, logger: s.opts.Log, pause: pause}
	b := l.peek(ctx, id).(*logBook)
	var diary []byte
	err := b.read(ctx, func(r io.Reader) error {
		pages, err := io.ReadAll(r)
		diary = append(diary, pages...)
		return err
	})
	if err != nil {
		return fmt.Errorf("the log of run %s: %w", id, err)
	}
	state, err := b.state(ctx)
	if err != nil {
		return err
	}
	if err := state.(*loggedFolder).Close(); err != nil {
		return err
	}
	return os.WriteFile(dir.diaryOf(id), diary, 0o600)
}

// A restoredLog is the log of one run in a backup.
type restoredLog struct{ path string }

// Read implements [Log].
func (l restoredLog) Read(_ context.Context, _ string, _ uint64, yield func(uint64, []byte) error) (n uint64, err error) {
	err = readRecords(l.path, func(record []byte) error {
		n++
		return yield(n, record)
	})
	return n, err
}

// All implements [Log].
func (restoredLog) All(context.Context) ([]string, error) { return nil, errRestored }

var errRestored = protocol.Errorf(protocol.InvalidState, "a backup is only read")

// Append implements [Log].
func (restoredLog) Append(context.Context, string, uint64, []byte) (uint64, error) {
	return 0, errRestored
}

// Remove implements [Log].
func (restoredLog) Remove(context.Context, string) error { return errRestored }

// A restoredBlob reads blobs of a backup.
type restoredBlob struct {
	Blobs
	dir string
}

// Get implements [Blobs].
func (b restoredBlob) Get(_ context.Context, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(b.dir, BlobFile(name)))
}

// BlobFile is the name of a blob's file in a backup.
func BlobFile(name string) string { return strings.ReplaceAll(name, "/", "@") }

// blobNamed is the blob of a file in a backup.
func blobNamed(file string) string { return strings.ReplaceAll(file, "@", "/") }
