package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/security/keyfile"
)

// removedFile is in the folder of the server of a bridge that was removed from its
// cluster, with the reason why it does not start. The server is not started on it
// again: it would take part in elections, and get copies of the state, until its bridge
// knows.
const removedFile = "removed"

// checkRemoved fails if the folder is of a bridge that knows that it was removed.
func checkRemoved(c config.Config) error {
	text, err := os.ReadFile(filepath.Join(memberDir(c), removedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%s: the state in %s is good for nothing any more", text, memberDir(c))
	}
	return err
}

// removed has the server of a removed bridge, which has just started with it, leave
// those that keep the state, and start no more.
func (o *Options) removed(ctx context.Context, nats *natsd.Server, why *cluster.Removed) {
	if !nats.Votes() {
		return
	}
	if err := keyfile.Write(filepath.Join(memberDir(o.Config), removedFile), []byte(why.Error())); err != nil {
		o.Log.ErrorContext(ctx, "the folder of a removed bridge is not marked", "error", err)
	}
	if err := nats.RemoveVoter(ctx, o.Config.ID); err != nil {
		o.Log.WarnContext(ctx, "the server of a removed bridge has not left those that keep the state; remove the bridge again", "error", err)
	}
}
