package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/aibridge/aibridge/connect/site"
	"github.com/aibridge/aibridge/internal/egress"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/folder"
	"github.com/aibridge/aibridge/vfs/remote"
)

// The fileParts keep files.
type fileParts struct {
	*vfs.Service
	store    *vfs.Store
	incoming string // folder of temporary files
}

// newFiles makes the part that keeps files. Its tables are loaded afterwards.
func newFiles(ctx context.Context, s *state, members vfs.Members, catchUp func(context.Context) error) (*fileParts, error) {
	o, sites := &s.config.VFS, site.Names(s.config.Sites.Have)
	dir := s.config.VFSDir()
	blobs, err := openBlobs(ctx, s, dir)
	if err != nil {
		return nil, err
	}
	records := store.NewTable[vfs.Record](s.Store, "vfsfile")
	content := vfs.NewStore(vfs.StoreOptions{
		Records:    records,
		Blobs:      blobs,
		Atomic:     atomicFiles(s.Store, records),
		CatchUp:    catchUp,
		MaxFile:    o.MaxFile,
		Quota:      o.Quota,
		Allot:      sites.Room,
		Versions:   o.Versions,
		Remember:   time.Duration(o.Remember) * 24 * time.Hour,
		Log:        s.log,
		Registerer: s.metrics,
	})
	followFiles(s, records)
	s.metrics.MustRegister(site.FileRooms(content.Allotments))
	service := vfs.New(vfs.Options{
		MayName: sites.CheckFiles,
		Store:   content,
		Groups:  store.NewTable[vfs.Group](s.Store, "vfsgroup"),
		Remotes: store.NewTable[vfs.Remote](s.Store, "vfsremote"),
		Members: members,
		Dial: func(r vfs.Remote, credential string) (vfs.Files, error) {
			guard := egress.Guard{AllowPrivate: o.Private || s.config.Skills.AllowPrivate || s.config.Dev}
			return remote.New(remote.Options{URL: r.URL, Credential: credential, Inside: r.Inside, Control: guard.Control})
		},
		Sealer:   s.seals,
		Publish:  s.clients.Publish,
		Topics:   s.topics,
		BridgeID: s.config.ID,
		Log:      s.log,
	})
	s.life.Add("remote files", service.Close)
	incoming, err := temporary(filepath.Join(dir, "incoming"))
	return &fileParts{service, content, incoming}, err
}

// temporary makes an empty folder.
func temporary(dir string) (string, error) {
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("folder for uploads: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("folder for uploads: %w", err)
	}
	return dir, nil
}

// openBlobs chooses the place of the contents of files. A bridge that has its state
// to itself keeps them in a folder, which is as quick as the disk; several on an
// external NATS share its object bucket (docs/decisions).
func openBlobs(ctx context.Context, s *state, dir string) (vfs.Blobs, error) {
	if s.config.InNATS() {
		return s.Store.OpenBlobs(ctx)
	}
	blobs, err := folder.Open(dir)
	if err != nil {
		return nil, err
	}
	s.life.Add("contents of files", func(context.Context) error { return blobs.Close() })
	return vfs.Reserved(blobs, s.disk), nil
}

// atomicFiles makes changes of several records in one.
func atomicFiles(s *store.Store, records *store.Table[vfs.Record]) func(context.Context, []vfs.Change) error {
	return func(ctx context.Context, changes []vfs.Change) error {
		ops := make([]store.Op, len(changes))
		for i, c := range changes {
			if c.Revision == 0 {
				ops[i] = records.CreateOp(c.Key, c.Record)
			} else {
				ops[i] = records.PutOp(c.Key, c.Record, c.Revision)
			}
		}
		return s.Atomic(ctx, ops...)
	}
}
