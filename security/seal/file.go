package seal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/security/masterkey"
)

// KeyFile is the file in the data folder with the master key. Bridges that share
// their state share a copy of it.
const KeyFile = "seal.key"

// A Store is a ring whose master key is in the data folder of a bridge.
type Store struct {
	*Ring
	File  *masterkey.File
	fresh bool // there was no master key at this start
}

// Tables are the tables of data keys and of versions of the master key.
type Tables struct {
	Keys    records.Table[DataKey]
	Masters records.Table[masterkey.Version]
	Holders records.Table[masterkey.Holder]
}

// Open reads the master key from the data folder of a bridge; its id is "" if it
// shares its state with none. The tables need not be loaded yet; [Store.Start] comes
// when they are, and makes the master key if it is not there.
func Open(dir, bridge string, t Tables, log *slog.Logger) (*Store, error) {
	file, err := masterkey.Open(masterkey.Options{
		Dir: dir, Name: KeyFile, Bridge: bridge, Versions: t.Masters, Holders: t.Holders, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("master key of sealed data: %w", err)
	}
	return &Store{Ring: NewUnder(t.Keys, file), File: file, fresh: !file.There()}, nil
}

// Start makes sure that there is a data key that can be opened. After a restore without
// the master key the store begins anew. A bridge that shares its state with others and
// was not given their key runs without the sealed values.
func (s *Store) Start(ctx context.Context, shared bool, log *slog.Logger) error {
	if s.fresh {
		if shared && (s.keys.Len() > 0 || s.File.Rotated()) {
			log.Warn("what other bridges have sealed cannot be read: copy their key into the data folder and start again", "file", KeyFile)
			return nil
		}
		if err := s.File.Make(ctx); err != nil {
			return err
		}
	}
	lost, err := s.Check(ctx)
	if errors.Is(err, ErrOtherMaster) && (s.fresh || s.File.Begun()) {
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
