package verify

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/aibridge/aibridge/internal/storage"
)

var (
	wholeState    = promise{"state", "every record of your bridge is there and can be read", "", tryState}
	wholeTrail    = promise{"audit trail", "the trail of your bridge verifies to its end", "", tryTrail}
	tamperedTrail = promise{"tampered audit", "a byte that was changed in the copy's trail was found", "the copy's trail verified before", tryTampering}
)

// evidence is the folder with the trail, in the data folder.
const evidence = "evidence"

// tryState reads the state of a bridge at rest where it is, since a backup leaves
// out lost records. A bridge that runs has read its own.
func tryState(ctx context.Context, t *trials) error {
	if t.Original == "" {
		return cannot("there is a backup alone, which may have left out what was damaged: run this on the bridge's data folder")
	}
	tables := slices.Concat(keptTables, emptiedTables)
	err := storage.VerifyState(ctx, t.Config, tables)
	if errors.Is(err, storage.ErrInUse) {
		err = storage.VerifyState(ctx, t.config, tables)
	}
	if err != nil {
		return breaks("a bridge would not start on it: %s", err)
	}
	return nil
}

func tryTrail(ctx context.Context, t *trials) error {
	if !t.trail {
		return cannot("the key of the audit trail, audit.key, is not at hand: run this on the bridge's data folder")
	}
	report, err := t.VerifyAudit(ctx, t.Config) // a backup may leave out damaged entries
	if errors.Is(err, storage.ErrInUse) {
		report, err = t.VerifyAudit(ctx, t.config)
	}
	switch {
	case err != nil:
		return breaks("the trail cannot be verified: %s", err)
	case !report.OK:
		return breaks("the trail is not whole; aibridge audit verify tells more")
	}
	return nil
}

func tryTampering(ctx context.Context, t *trials) error {
	if report, err := t.VerifyAudit(ctx, t.config); err != nil || !report.OK {
		return cannot("the copy's trail does not verify as it is, so that a change of it would not show")
	}
	if err := changeByte(filepath.Join(t.config.Data, evidence)); err != nil {
		return err
	}
	if report, err := t.VerifyAudit(ctx, t.config); err == nil && report.OK {
		return breaks("a byte of the trail was changed, and it still verifies")
	}
	return nil
}

// changeByte changes a byte in the middle of the largest file of the trail in a
// folder. Indexes beside it are made anew when they do not fit.
func changeByte(folder string) error {
	var largest string
	var size int64
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".log" {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Size() > size {
			largest, size = path, info.Size()
		}
		return err
	})
	if err == nil && size == 0 {
		err = errors.New("the trail has no file")
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(largest)
	if err != nil {
		return err
	}
	used := len(bytes.TrimRight(text, "\x00")) // the rest may be room for more
	if used == 0 {
		return errors.New("the trail is empty")
	}
	text[used/2] ^= 0x20
	return os.WriteFile(largest, text, 0o600)
}
