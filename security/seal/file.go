package seal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/security/keyfile"
)

// KeyFile is the file in the data folder with the master key. Bridges that share
// their state share a copy of it.
const KeyFile = "seal.key"

// A Store is a ring whose master key is in the data folder of a bridge.
type Store struct {
	*Ring
	path  string // of the master key
	fresh bool   // the master key was made at this start
}

// Open reads the master key from the data folder, or makes it. The table of data
// keys need not be loaded yet; [Store.Start] comes when it is.
func Open(dir string, keys records.Table[DataKey]) (*Store, error) {
	s := &Store{path: filepath.Join(dir, KeyFile)}
	_, err := os.Stat(s.path)
	s.fresh = errors.Is(err, fs.ErrNotExist)
	master, err := keyfile.Secret(s.path, MasterKeySize)
	if err != nil {
		return nil, fmt.Errorf("master key of sealed data: %w", err)
	}
	s.Ring, err = New(keys, master)
	return s, err
}

// Start sees to it that there is a data key that can be opened. Who has restored
// a backup without the master key begins anew. A bridge that shares its state
// with others and was not given their key runs without the sealed values.
func (s *Store) Start(ctx context.Context, shared bool, log *slog.Logger) error {
	lost, err := s.Check(ctx)
	switch {
	case !errors.Is(err, ErrOtherMaster) || !s.fresh:
	case shared:
		log.Warn("what other bridges have sealed cannot be read: copy their key into the data folder and start again", "file", KeyFile)
		return os.Remove(s.path)
	default:
		if _, err = s.Rotate(ctx); err == nil {
			lost, err = s.Check(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("%w (%s in the data folder)", err, KeyFile)
	}
	if lost > 0 {
		log.Warn("values sealed with another master key cannot be read", "data_keys", lost, "file", KeyFile)
	}
	return nil
}
