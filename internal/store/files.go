package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/aibridge/aibridge/protocol"
)

// filesSection holds the bridge's files beside the store.
const filesSection = "files"

// filePiece is the part of a file that is in one line of an archive.
const filePiece = 1 << 20

// A FileSource adds the files of one place to a backup.
type FileSource struct {
	Place string // the kind of its files, such as "runs"
	Add   func(context.Context, *FileWriter) error
}

// A FileTarget takes the files of one place from a backup.
type FileTarget interface {
	// Check fails if there can be no file with such a path here; a path is as
	// [fs.ValidPath] wants it. Nothing was changed so far.
	Check(path string) error
	// Empty reports whether nothing is there.
	Empty(context.Context) (bool, error)
	// Clear makes it so.
	Clear(context.Context) error
	// Folder makes a folder.
	Folder(ctx context.Context, path string) error
	// File begins a file, with the folders above it.
	File(ctx context.Context, path string) (RestoredFile, error)
	// Done is called when all files are there; they are durable when it
	// returns.
	Done(context.Context) error
}

// A RestoredFile is a file being written. It counts once it is committed.
type RestoredFile interface {
	io.Writer
	Commit() error
	Abort()
}

// A fileLine is a folder, or one piece of a file; those of one file follow
// each other.
type fileLine struct {
	Place  string `json:"place"`
	Path   string `json:"path"`
	Folder bool   `json:"folder,omitempty"`
	At     int64  `json:"at,omitempty"` // where in the file the piece begins
	Data   []byte `json:"data,omitempty"`
	Last   bool   `json:"last,omitempty"` // the file ends with it
}

// A FileWriter writes files into an archive, one after the other.
type FileWriter struct {
	archive *archiveWriter
	place   string
	piece   []byte
}

// Folder adds a folder, for when it matters though nothing is in it.
func (w *FileWriter) Folder(path string) error {
	return w.archive.line(fileLine{Place: w.place, Path: path, Folder: true})
}

// File adds a file with the content of r.
func (w *FileWriter) File(path string, r io.Reader) error {
	if w.piece == nil {
		w.piece = make([]byte, filePiece)
	}
	line := fileLine{Place: w.place, Path: path}
	for !line.Last {
		n, err := io.ReadFull(r, w.piece)
		line.Last = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !line.Last {
			return fmt.Errorf("%s %s: %w", w.place, path, err)
		}
		line.Data = w.piece[:n]
		if err := w.archive.line(line); err != nil {
			return err
		}
		line.At += int64(n)
	}
	w.archive.manifest.count(w.place)
	return nil
}

// count notes one file more of a place.
func (m *Manifest) count(place string) {
	if m.Files == nil {
		m.Files = make(map[string]int)
	}
	m.Files[place]++
}

func backupFiles(ctx context.Context, archive *archiveWriter, sources []FileSource) error {
	if len(sources) == 0 {
		return nil
	}
	if err := archive.begin(filesSection); err != nil {
		return err
	}
	for _, s := range sources {
		if err := s.Add(ctx, &FileWriter{archive: archive, place: s.Place}); err != nil {
			return err
		}
	}
	return nil
}

// A fileReader puts the files of an archive together again, or checks that
// they could be.
type fileReader struct {
	places map[string]FileTarget
	met    map[string]bool // places of which there is something
	dry    bool            // nothing is written

	open fileLine // the file that has begun and not ended, no place without one
	file RestoredFile
}

// line takes the next line.
func (r *fileReader) line(ctx context.Context, data []byte) error {
	var l fileLine
	if err := json.Unmarshal(data, &l); err != nil {
		return err
	}
	place, ok := r.places[l.Place]
	switch {
	case !ok:
		return fmt.Errorf("files of %q cannot be restored here", l.Place)
	case !fs.ValidPath(l.Path) || l.Path == "." || bytes.ContainsRune([]byte(l.Path), '\\'):
		return fmt.Errorf("%q is no path of a file", l.Path)
	}
	r.met[l.Place] = true
	if err := place.Check(l.Path); err != nil {
		return err
	}
	if r.open.Place != "" && (l.Folder || l.Place != r.open.Place || l.Path != r.open.Path) {
		return fmt.Errorf("%s %s does not end", r.open.Place, r.open.Path)
	}
	if l.At != r.open.At {
		return fmt.Errorf("%s %s goes on at %d instead of %d", l.Place, l.Path, l.At, r.open.At)
	}
	if l.Folder {
		if r.dry {
			return nil
		}
		return place.Folder(ctx, l.Path)
	}
	if err := r.write(ctx, place, &l); err != nil {
		return fmt.Errorf("%s %s: %w", l.Place, l.Path, err)
	}
	r.open = fileLine{Place: l.Place, Path: l.Path, At: l.At + int64(len(l.Data))}
	if l.Last {
		r.open = fileLine{}
	}
	return nil
}

func (r *fileReader) write(ctx context.Context, place FileTarget, l *fileLine) (err error) {
	if r.dry {
		return nil
	}
	if r.file == nil {
		file, err := place.File(ctx, l.Path)
		if err != nil {
			return err
		}
		r.file = file
	}
	if _, err := r.file.Write(l.Data); err != nil || !l.Last {
		return err
	}
	err = r.file.Commit()
	r.file = nil
	return err
}

// end fails if a file has not ended.
func (r *fileReader) end() error {
	if r.open.Place != "" {
		return fmt.Errorf("%s %s does not end", r.open.Place, r.open.Path)
	}
	return nil
}

// abort gives up a file that is being written.
func (r *fileReader) abort() {
	if r.file != nil {
		r.file.Abort()
	}
}

// mayReplace fails if the files of an archive may not be restored because there are
// some already.
func (r *fileReader) mayReplace(ctx context.Context) error {
	for name := range r.met {
		empty, err := r.places[name].Empty(ctx)
		if err != nil {
			return err
		}
		if !empty {
			return protocol.Errorf(protocol.InvalidState, "there are %s already", name)
		}
	}
	return nil
}

func (r *fileReader) clear(ctx context.Context) error {
	for name := range r.met {
		if err := r.places[name].Clear(ctx); err != nil {
			return fmt.Errorf("clear %s: %w", name, err)
		}
	}
	return nil
}

// done ends the file that was written last.
func (r *fileReader) done(ctx context.Context) error {
	err := r.end()
	for name := range r.met {
		err = errors.Join(err, r.places[name].Done(ctx))
	}
	return err
}
