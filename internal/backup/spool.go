package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/aibridge/aibridge/internal/store"
)

// spoolFiles are the files of the audit trail, by the beginning of their names.
// Entries in them that are stored already do no harm: the trail knows them.
type spoolFiles string

func (s spoolFiles) file(name string) string { return string(s) + "." + name }

var spoolNames = []string{"0", "1"}

// read reads the waiting entries, for a backup of which the trails are copied
// later. An entry that a bridge stores meanwhile is then in both, and counts once;
// read later, it could be in neither.
func (s spoolFiles) read() (store.FileSource, error) {
	waiting := make(map[string][]byte)
	for _, name := range spoolNames {
		data, err := os.ReadFile(s.file(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return store.FileSource{}, err
		}
		if len(data) > 0 {
			waiting[name] = data
		}
	}
	return store.FileSource{Place: placeSpool, Add: func(_ context.Context, w *store.FileWriter) error {
		for _, name := range slices.Sorted(maps.Keys(waiting)) {
			if err := w.File(name, bytes.NewReader(waiting[name])); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}

// Check implements [store.FileTarget].
func (s spoolFiles) Check(name string) error {
	for _, known := range spoolNames {
		if name == known {
			return nil
		}
	}
	return fmt.Errorf("%q is no file of the audit trail", name)
}

// Empty implements [store.FileTarget]: existing files stay.
func (s spoolFiles) Empty(context.Context) (bool, error) { return true, nil }

// Clear implements [store.FileTarget].
func (s spoolFiles) Clear(context.Context) error { return nil }

// Folder implements [store.FileTarget].
func (s spoolFiles) Folder(context.Context, string) error { return nil }

// File implements [store.FileTarget]. Entries are added to those that are there.
func (s spoolFiles) File(_ context.Context, name string) (store.RestoredFile, error) {
	f, err := os.OpenFile(s.file(name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	return restoredFile{f}, err
}

// Done implements [store.FileTarget].
func (s spoolFiles) Done(context.Context) error { return nil }
