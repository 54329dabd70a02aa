package tree

import (
	"errors"
	"io/fs"
)

// swapInPlainly moves an unfinished file to its place where the system cannot
// exchange files: the file there is taken away first.
func (f *Folder) swapInPlainly(from, to string, seen Stamp) error {
	if !seen.Absent() {
		if err := f.swapOut(to, seen); err != nil {
			return err
		}
	}
	err := f.root.Link(from, to) // unlike a rename it replaces nothing
	if errors.Is(err, fs.ErrExist) {
		return ErrChanged
	}
	if err != nil {
		return err
	}
	return f.root.Remove(from)
}
