package app

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	filesdoor "github.com/aibridge/aibridge/doors/files"
	"github.com/aibridge/aibridge/doors/files/transfer"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/folder"
	"github.com/aibridge/aibridge/vfs/remote"
)

// fileParts are what serves files.
type fileParts struct {
	*vfs.Service
	store *vfs.Store
	dir   string // of what is only there for a while
	web   *filesdoor.Handler
	chunk *transfer.Door
}

// newFiles makes the part that keeps files. Its tables are loaded afterwards.
func (a *App) newFiles(ctx context.Context, members vfs.Members) error {
	o := &a.config.VFS
	dir := a.config.vfsDir()
	blobs, err := a.openBlobs(ctx, dir)
	if err != nil {
		return err
	}
	records := store.NewTable[vfs.Record](a.store, "vfsfile")
	a.files.store = vfs.NewStore(vfs.StoreOptions{
		Records:    records,
		Blobs:      blobs,
		Atomic:     atomicFiles(a.store, records),
		MaxFile:    int64(o.MaxFile),
		Quota:      int64(o.Quota),
		Versions:   o.Versions,
		Remember:   time.Duration(o.Remember) * 24 * time.Hour,
		Log:        a.log,
		Registerer: a.metrics,
	})
	a.files.Service = vfs.New(vfs.Options{
		Store:   a.files.store,
		Groups:  store.NewTable[vfs.Group](a.store, "vfsgroup"),
		Remotes: store.NewTable[vfs.Remote](a.store, "vfsremote"),
		Members: members,
		Dial:    a.dialVFS,
		Sealer:  a.seals,
		Log:     a.log,
	})
	a.life.add("remote files", a.files.Close)
	a.files.dir, err = temporary(filepath.Join(dir, "incoming"))
	return err
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

// openBlobs chooses where contents of files are. A bridge that has its state to
// itself keeps them in a folder, which is as quick as the disk; several on an
// external NATS share its object bucket (docs/decisions).
func (a *App) openBlobs(ctx context.Context, dir string) (vfs.Blobs, error) {
	if a.config.inNATS() {
		return a.store.OpenBlobs(ctx)
	}
	blobs, err := folder.Open(dir)
	if err != nil {
		return nil, err
	}
	a.life.add("contents of files", func(context.Context) error { return blobs.Close() })
	return vfs.Reserved(blobs, a.disk), nil
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

// openFileTopics lets clients at files, chunk by chunk over MQTT.
func (a *App) openFileTopics() {
	a.files.chunk = transfer.New(transfer.Options{
		Files: a.files.For,
		Authorize: func(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error {
			return a.authorizer.Authorize(ctx, who, action, on)
		},
		Grants:   a.credentials,
		Publish:  a.broker.Publish,
		Topics:   a.mqtt.Topics(),
		Dir:      a.files.dir,
		MaxFile:  int64(a.config.VFS.MaxFile),
		MaxChunk: min(256<<10, a.config.Limits.Payload),
		Log:      a.log,
	})
	take := func(p *broker.Publication) {
		a.files.chunk.Take(&transfer.Publication{Principal: p.Client.Principal(), Topic: p.Topic, Payload: p.Payload})
	}
	a.broker.Handle(a.mqtt.Topics().VFS("+", "put/#"), take)
	a.broker.Handle(a.mqtt.Topics().VFS("+", "get/#"), take)
	a.run("chunks of files", a.files.chunk.Run)
}

// openFileDoors lets clients at files, over HTTP.
func (a *App) openFileDoors() (err error) {
	a.files.web, err = filesdoor.New(filesdoor.Options{
		Service:      a.files.Service,
		Authenticate: a.authenticateForFiles,
		Authorize: func(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error {
			return a.authorizer.Authorize(ctx, who, action, on)
		},
		Grants:  a.credentials,
		Sync:    http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.api.Envelopes().ServeHTTP(w, r) }),
		Spool:   a.files.dir,
		MaxFile: int64(a.config.VFS.MaxFile),
		Log:     a.log,
	})
	return err
}

// dialVFS makes the client of a remote VFS.
func (a *App) dialVFS(r vfs.Remote, credential string) (vfs.Files, error) {
	return remote.New(remote.Options{
		URL:        r.URL,
		Credential: credential,
		Inside:     r.Inside,
		Control:    registry.DialControl(a.config.VFS.Private || a.config.Skills.AllowPrivate || a.config.Dev),
	})
}

// inNATS reports whether contents of files are in NATS.
func (c *Config) inNATS() bool {
	return c.VFS.Store == "nats" || c.VFS.Store == "auto" && c.NATS.URL != ""
}

// vfsDir is the folder for contents of files.
func (c *Config) vfsDir() string {
	return cmp.Or(c.VFS.Dir, filepath.Join(c.Data, "vfs"))
}
