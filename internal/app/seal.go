package app

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security/keyfile"
	"github.com/aibridge/aibridge/security/seal"
)

// SealKeyFile is the file in the data folder with the master key, which seals
// the data keys. Bridges that share their state share a copy of it.
const SealKeyFile = "seal.key"

// newSeals makes what seals data at rest. Its table is loaded afterwards.
func (a *App) newSeals() error {
	master, err := keyfile.Secret(filepath.Join(a.config.Data, SealKeyFile), seal.MasterKeySize)
	if err != nil {
		return fmt.Errorf("master key of sealed data: %w", err)
	}
	a.seals, err = seal.New(store.NewTable[seal.DataKey](a.store, "datakey"), master)
	return err
}

// openSeals sees to it that there is a data key, and that it can be opened.
func (a *App) openSeals(ctx context.Context) error {
	if err := a.seals.Check(ctx); err != nil {
		return fmt.Errorf("%w (%s in the data folder)", err, SealKeyFile)
	}
	return nil
}
