package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/client/agent/folder"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror"
	"github.com/aibridge/aibridge/vfs/remote"
)

// A syncedFolder is a folder of the device that is kept the same as the disk of
// a Cap, if that is asked for.
type syncedFolder struct {
	cap, dir, rule, url string

	files  *remote.Client
	folder *folder.Folder // nil if it is not asked for
}

func (f *syncedFolder) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&f.cap, "cap", "", "Cap whose disk the folder --dir is kept the same as")
	fs.StringVar(&f.dir, "dir", "", "folder to keep the same as the disk of the Cap")
	fs.StringVar(&f.rule, "conflict", string(mirror.RemoteWins), "who wins when a file was changed at both ends: remote_wins, local_wins, latest_wins, keep_both")
	addHTTPURL(fs, &f.url)
}

// open opens the folder before anything is connected, so that its faults show at the
// start.
func (f *syncedFolder) open(ctx context.Context, t *target, origin, skills string, log *slog.Logger) (*syncedFolder, error) {
	if f.cap == "" && f.dir == "" {
		return f, nil
	}
	if f.cap == "" || f.dir == "" {
		return nil, usageError{errors.New("--cap and --dir go together")}
	}
	rule := mirror.Rule(f.rule)
	if err := rule.Check(); err != nil {
		return nil, usageError{err}
	}
	var err error
	if f.files, err = t.files(ctx, f.url); err != nil {
		return nil, err
	}
	f.folder, err = folder.Open(folder.Options{
		Dir: f.dir, Cap: protocol.CapID(f.cap), Files: f.files, Apart: []string{skills}, Rule: rule, Origin: origin, Log: log,
	})
	return f, err
}

// run keeps the folder the same until ctx ends.
func (f *syncedFolder) run(ctx context.Context, c *client.Client) error {
	if f.folder == nil {
		return nil
	}
	f.folder.ReportTo(func(ctx context.Context, r folder.Report, done []folder.Obeyed) (folder.Orders, error) {
		params := map[string]any{"cap_id": f.cap, "folder": r}
		if len(done) > 0 {
			params["obeyed"] = done
		}
		return client.Call[folder.Orders](ctx, c, "cap.vfs.sync.report", params)
	})
	return errors.Join(f.folder.Run(ctx), f.files.Close())
}

// bearer is the credential of [target.credential] for HTTP, as it is at the start,
// "" for none.
func (t *target) bearer() (string, error) {
	file := t.keyFile
	if file == "" {
		file = t.oldKeyFile
	}
	switch {
	case t.token != "":
		return t.token, nil
	case t.tokenFile != "":
		return readSecret(t.tokenFile)
	case file != "":
		return readSecret(file)
	case os.Getenv("AIBRIDGE_TOKEN") != "":
		return os.Getenv("AIBRIDGE_TOKEN"), nil
	case os.Getenv("AIBRIDGE_API_KEY") != "":
		return os.Getenv("AIBRIDGE_API_KEY"), nil
	case t.cert != "":
		return "", nil
	}
	secret, err := readSecret(filepath.Join(t.folder(), app.AdminKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // a bridge under --dev asks for none
	}
	return secret, err
}
