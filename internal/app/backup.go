package app

import (
	"cmp"
	"context"
	"io"
	"path/filepath"

	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
)

// ErrRunning reports that a bridge works on the data folder.
var ErrRunning = natsd.ErrInUse

// Backup writes everything the bridge with this configuration knows, and
// returns what that is in a few words. The claims of an embedded state are not
// in it: some minutes later they are of no use to anybody.
//
// It fails with [ErrRunning] if a bridge works on an embedded state: that
// makes backups of itself, see [backup.Service].
func Backup(ctx context.Context, config Config, w io.Writer, options backup.Options) (summary string, err error) {
	err = withStore(ctx, config, func(s *store.Store) (err error) {
		summary, err = backup.Write(ctx, s, config.saved(), w, options)
		return err
	})
	return summary, err
}

// Restore fills the state and the data folder from a backup. It refuses to
// touch what holds something, unless force is set.
func Restore(ctx context.Context, config Config, r io.Reader, force bool) (summary string, err error) {
	err = withStore(ctx, config, func(s *store.Store) (err error) {
		summary, err = backup.Restore(ctx, s, config.saved(), r, force)
		return err
	})
	return summary, err
}

// saved are the places that a backup has.
func (c *Config) saved() backup.Places {
	p := backup.Places{
		Runs:   filepath.Join(c.Data, "runs"),
		Caps:   filepath.Join(c.Data, "caps"),
		Models: filepath.Join(c.Data, llmHistory),
		Spool:  filepath.Join(c.Data, auditSpoolFiles),
	}
	if !c.inNATS() {
		p.Contents = c.vfsDir()
	}
	return p
}

// newBackups makes the part that saves this bridge.
func (a *App) newBackups() (err error) {
	dir := cmp.Or(a.config.Backup.Dir, filepath.Join(a.config.Data, "backups"))
	a.backups, err = backup.New(backup.ServiceOptions{
		BridgeID:   a.config.ID,
		Settings:   a.config.Backup,
		Dir:        dir,
		Store:      a.store,
		Places:     a.config.saved(),
		Hold:       a.files.store.Hold,
		Trail:      a.audit,
		Authorize:  a.authorizer.Authorize,
		Leaving:    a.leaving,
		Room:       diskspace.New(diskspace.Options{Folders: []string{dir}, Reserve: a.config.Disk.Reserve(), Look: a.look}),
		Clock:      a.clock,
		Log:        a.log,
		Registerer: a.metrics,
	})
	return err
}
