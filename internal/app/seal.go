package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security/keyfile"
	"github.com/aibridge/aibridge/security/seal"
)

// SealKeyFile is the file in the data folder with the master key, which seals
// the data keys. Bridges that share their state share a copy of it.
const SealKeyFile = "seal.key"

// A sealSide is what seals data at rest.
type sealSide struct {
	*seal.Ring
	fresh bool // the master key was made at this start
}

// newSeals makes what seals data at rest. Its table is loaded afterwards.
func (a *App) newSeals() error {
	path := filepath.Join(a.config.Data, SealKeyFile)
	_, err := os.Stat(path)
	a.seals.fresh = errors.Is(err, fs.ErrNotExist)
	master, err := keyfile.Secret(path, seal.MasterKeySize)
	if err != nil {
		return fmt.Errorf("master key of sealed data: %w", err)
	}
	a.seals.Ring, err = seal.New(store.NewTable[seal.DataKey](a.store, "datakey"), master)
	return err
}

// openSeals sees to it that there is a data key that can be opened. Who has
// restored a backup without the master key begins anew. A bridge that shares
// its state with others and was not given theirs runs without what is sealed.
func (a *App) openSeals(ctx context.Context) error {
	lost, err := a.seals.Check(ctx)
	switch {
	case !errors.Is(err, seal.ErrOtherMaster) || !a.seals.fresh:
	case a.config.NATS.URL != "":
		a.log.Warn("what other bridges have sealed cannot be read: copy their key into the data folder and start again", "file", SealKeyFile)
		return os.Remove(filepath.Join(a.config.Data, SealKeyFile))
	default:
		if _, err = a.seals.Rotate(ctx); err == nil {
			lost, err = a.seals.Check(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("%w (%s in the data folder)", err, SealKeyFile)
	}
	if lost > 0 {
		a.log.Warn("what was sealed with another master key cannot be read", "data_keys", lost, "file", SealKeyFile)
	}
	return nil
}
