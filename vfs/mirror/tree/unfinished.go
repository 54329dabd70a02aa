package tree

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"os"
	"path"
	"time"
)

// An Unfinished is a file being written, outside the mirrored paths.
type Unfinished struct {
	folder *Folder
	file   *os.File // nil once it is saved
	name   string   // inside the private folder; "" once it has its place, or none
	stamp  Stamp    // once it is saved
}

// Create begins a file. It gets its place by [Unfinished.Replace] or
// [Folder.ReplaceAll]; the caller ends with [Unfinished.Discard] in any case.
func (f *Folder) Create() (*Unfinished, error) {
	name := unfinished + "/" + randomName()
	file, err := f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, fileMode)
	if err != nil {
		return nil, err
	}
	return &Unfinished{folder: f, file: file, name: name}, nil
}

func randomName() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Write implements [io.Writer].
func (u *Unfinished) Write(p []byte) (int, error) { return u.file.Write(p) }

// File is the file itself, for writes at offsets and for reads.
func (u *Unfinished) File() *os.File { return u.file }

// SetTime has the file dated, in Unix milliseconds, unless that is 0 or no time. Where the
// system refuses, it has the time at which it was written.
func (u *Unfinished) SetTime(mtime int64) {
	if mtime > 0 && mtime <= math.MaxInt64/int64(time.Millisecond) {
		t := time.UnixMilli(mtime)
		_ = u.folder.root.Chtimes(u.name, t, t)
	}
}

// Truncate begins the file anew.
func (u *Unfinished) Truncate() error {
	if _, err := u.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return u.file.Truncate(0)
}

// Discard removes the file unless it was placed.
func (u *Unfinished) Discard() {
	if u.name == "" {
		return
	}
	if u.file != nil {
		_ = u.file.Close() // its content is thrown away
	}
	_ = u.folder.root.Remove(u.name) // the next start tries again
	u.file, u.name = nil, ""
}

// Save makes the content durable and closes the file, which still has no place.
func (u *Unfinished) Save() error {
	if u.file == nil {
		return nil // done before
	}
	if err := u.file.Sync(); err != nil {
		return err
	}
	stamp, err := StampOf(u.file)
	if err != nil {
		return err
	}
	u.stamp = stamp
	err = u.file.Close()
	u.file = nil
	return err
}

// Replace saves the file and gives it the place of the file whose stamp was
// seen, or of none. If another is there, the error is ErrChanged, and that one
// stays. It returns when all is durable.
func (u *Unfinished) Replace(name string, seen Stamp) (Stamp, error) {
	r := Replacement{File: u, Name: name, Seen: seen}
	u.folder.ReplaceAll([]*Replacement{&r})
	return r.Stamp, r.Err
}

// A Replacement is an unfinished file, its destination, and the outcome.
type Replacement struct {
	File *Unfinished
	Name string
	Seen Stamp // of the file that it replaces, zero for none

	Stamp Stamp // of the file in its place
	Err   error // why it is not there, or not durable; ErrChanged if another file than Seen stands there
}

// ReplaceAll is [Unfinished.Replace] for many files. Each succeeds or fails by
// itself. Their folders are synced once, for all of them.
func (f *Folder) ReplaceAll(list []*Replacement) {
	var dirs []string
	for _, r := range list {
		var touched []string
		touched, r.Err = r.place()
		dirs = append(dirs, touched...)
	}
	if len(dirs) == 0 {
		return
	}
	if err := f.dirs.wait(dirs...); err != nil {
		for _, r := range list {
			r.Err = errors.Join(r.Err, err)
		}
	}
}

// place moves a file to its place, and lists the folders with new entries.
func (r *Replacement) place() (touched []string, err error) {
	u, f := r.File, r.File.folder
	if reason := CheckPath(r.Name); reason != "" {
		return nil, BadPathError{reason}
	}
	if err := u.Save(); err != nil {
		return nil, err
	}
	if touched, err = f.makeParents(r.Name); err != nil {
		return touched, err
	}
	if err := f.swapIn(u.name, r.Name, r.Seen); err != nil {
		return touched, err
	}
	u.name = ""
	touched = append(touched, path.Dir(r.Name))
	r.Stamp = u.stamp
	if now, err := f.Stat(r.Name); err == nil && sameFile(now, u.stamp) { // else it was replaced meanwhile, and is another file
		r.Stamp = now // the move has changed Change
	}
	return touched, nil
}

// ReadFrom implements [io.ReaderFrom].
func (u *Unfinished) ReadFrom(r io.Reader) (int64, error) { return u.file.ReadFrom(r) }
