package app

import (
	"cmp"
	"path/filepath"

	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/diskspace"
)

// newBackups makes the part that saves this bridge.
func newBackups(s *state, files *fileParts) (*backup.Service, error) {
	dir := cmp.Or(s.config.Backup.Dir, filepath.Join(s.config.Data, "backups"))
	return backup.New(backup.ServiceOptions{
		BridgeID:   s.config.ID,
		Settings:   s.config.Backup,
		Dir:        dir,
		Store:      s.Store,
		Places:     s.config.Places(),
		Hold:       files.store.Hold,
		Trail:      s.audit,
		Authorize:  s.authorizer.Authorize,
		Leaving:    s.leaving,
		Room:       diskspace.New(diskspace.Options{Folders: []string{dir}, Reserve: s.config.Disk.Reserve(), Look: s.look}),
		Clock:      s.clock,
		Log:        s.log,
		Registerer: s.metrics,
	})
}
