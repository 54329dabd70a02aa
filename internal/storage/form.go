package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/clusterkey"
	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security/keyfile"
)

// aloneDir is the folder of the embedded servers of a bridge that is alone. A
// server of a cluster that opened it would delete its content, so that has another
// one.
func aloneDir(c config.Config) string { return filepath.Join(c.Data, "nats") }

// memberDir is the folder of the embedded server of a bridge in a cluster.
func memberDir(c config.Config) string { return filepath.Join(c.Data, "cluster") }

// movedFile is in the folder of a bridge that was alone, once its state is in a
// cluster.
const movedFile = "moved"

// startMember starts the server of a bridge in a cluster that bridges form, with
// the secrets that they share.
func startMember(c config.Config, log *slog.Logger) (*natsd.Server, error) {
	if err := checkRemoved(c); err != nil {
		return nil, err
	}
	key, err := clusterkey.Read(c.Cluster.Key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return nil, err
	}
	if err := key.Install(c.Data); err != nil {
		return nil, err
	}
	return natsd.StartMember(natsd.ClusterOptions{
		Dir: memberDir(c), Name: c.Cluster.Name, Node: c.ID, Listen: c.Cluster.Listen, Advertise: c.Cluster.Advertise,
		Members: c.Cluster.Join, Key: key.Routes, AlsoKeys: key.AlsoRoutes(), Log: log,
	})
}

// form returns when the cluster that bridges form has begun. It is begun by the
// first of its members, which brings the state that it had alone; the others wait
// for that.
func (o *Options) form(ctx context.Context, nats *natsd.Server) error {
	c := o.Config
	if !c.Cluster.Formed() {
		return nil
	}
	if err := nats.Await(ctx, o.waits); err != nil {
		return err
	}
	begun, err := o.begun(ctx, nats)
	if err != nil {
		return err
	}
	first := c.Cluster.First()
	brings, err := wasAlone(c)
	switch {
	case err != nil:
		return err
	case brings && begun:
		return fmt.Errorf("the cluster has a state, and this bridge one of its own in %s: begin with a new data folder, or remove that one if it is not needed any more", aloneDir(c))
	case brings && !first:
		return fmt.Errorf("this bridge has a state of its own in %s: to bring it into the cluster, put %s first in cluster.join on all bridges", aloneDir(c), c.Cluster.Address())
	case brings:
		return o.bring(ctx, nats)
	case first || begun:
		return nil
	}
	return o.awaitFirst(ctx, nats)
}

// waits reports why the bridge waits. The log has a reason once, until there is
// another one.
func (o *Options) waits(reason string) {
	o.Waiting(reason)
	if reason != o.told {
		o.told = reason
		o.Log.Info("waiting", "why", reason)
	}
}

// waitsUnlessTwins tells whom the bridge waits for: those that are not there or, if all
// are, what the reason says. Where two bridges have one id it waits in vain.
func (o *Options) waitsUnlessTwins(ctx context.Context, nats *natsd.Server, reason string) {
	reason = cmp.Or(nats.Away(ctx), reason)
	if err := nats.Twins(ctx); err != nil {
		reason = fmt.Sprintf("the cluster cannot begin: %v", err)
	}
	o.waits(reason)
}

// begun reports whether the cluster has the records of members, which are its
// first stream.
func (o *Options) begun(ctx context.Context, nats *natsd.Server) (bool, error) {
	for {
		there, err := store.HasMembers(ctx, nats.State(), o.Config.Root)
		if err == nil || ctx.Err() != nil {
			return there, err
		}
		o.Log.WarnContext(ctx, "the cluster does not say what it has", "error", err)
		select {
		case <-time.After(firstConnectWait):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// awaitFirst waits until another member has begun the cluster.
func (o *Options) awaitFirst(ctx context.Context, nats *natsd.Server) error {
	tick := time.NewTicker(firstConnectWait)
	defer tick.Stop()
	for {
		o.waitsUnlessTwins(ctx, nats, fmt.Sprintf("this bridge waits for the one at %s, the first of cluster.join, to begin the cluster", o.Config.Cluster.Join[0]))
		begun, err := o.begun(ctx, nats)
		if begun || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// placed calls a function that makes streams, again while the servers of a cluster
// that bridges form have not all found each other.
func (o *Options) placed(ctx context.Context, nats *natsd.Server, do func() error) error {
	for {
		err := do()
		if !o.Config.Cluster.Formed() || !store.Unplaced(err) {
			return err
		}
		o.waitsUnlessTwins(ctx, nats, "the servers of the cluster find each other")
		select {
		case <-time.After(firstConnectWait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wasAlone reports whether the bridge has a state from before it was in a cluster.
func wasAlone(c config.Config) (bool, error) {
	if _, err := os.Stat(aloneDir(c)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return false, err
	}
	at, err := movedTo(c)
	return at == "", err
}

// movedTo is the present place of the state of a bridge that was alone, "" if it
// has not moved.
func movedTo(c config.Config) (string, error) {
	text, err := os.ReadFile(filepath.Join(aloneDir(c), movedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// bring copies the state that the bridge had alone into the cluster, which is not
// used yet. It stays where it was, marked as moved. A crash before the mark leaves
// a cluster that has not begun, and the copy is made again; likewise when the
// servers, which may still be electing leaders, do not take it.
func (o *Options) bring(ctx context.Context, nats *natsd.Server) error {
	o.waits("this bridge brings its state into the cluster")
	for began := time.Now(); ; {
		summary, again, err := o.copyState(ctx, nats)
		switch {
		case err == nil:
			o.Log.InfoContext(ctx, "the state of this bridge is in the cluster", "brought", summary, "took", time.Since(began).Round(time.Millisecond))
			note := fmt.Sprintf("into the cluster %q at %s", o.Config.Cluster.Name, time.Now().UTC().Format(time.RFC3339))
			return keyfile.Write(filepath.Join(aloneDir(o.Config), movedFile), []byte(note))
		case !again:
			return fmt.Errorf("bring the state of this bridge into the cluster: %w", err)
		}
		o.Log.WarnContext(ctx, "the cluster does not take the state of this bridge yet", "error", err)
		select {
		case <-time.After(firstConnectWait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// copyState makes the copy once. again means that the cluster could not be reached,
// or did not answer.
func (o *Options) copyState(ctx context.Context, nats *natsd.Server) (summary string, again bool, err error) {
	alone, into := o.Config, o.Config
	alone.Cluster, alone.VFS.Store = cluster.DefaultSettings(), aloneContents(o.Config)
	into.AcceptLoss = true // of an earlier attempt
	var s *store.Store
	err = o.placed(ctx, nats, func() (err error) {
		s, err = OpenStore(ctx, nats, into, o.Log, func(so *store.Options) {
			if cluster.Working(o.Config.Cluster.Working) == cluster.All {
				so.Node = o.Config.ID
			}
		})
		return err
	})
	if err != nil {
		return "", false, err
	}
	defer s.Close()
	from, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		_, err := Backup(ctx, alone, to, backup.Options{})
		to.CloseWithError(err)
		written <- err
	}()
	summary, err = backup.Restore(ctx, s, o.Config.Places(), from, true)
	from.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	if failed := <-written; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return "", false, errors.Join(failed, err)
	}
	return summary, store.Passing(err), err
}

// aloneContents is the place of the contents of files of a bridge that was alone:
// its folder, unless configured otherwise.
func aloneContents(c config.Config) string {
	if _, err := os.Stat(c.VFSDir()); err != nil && c.VFS.Store != "folder" {
		return "nats"
	}
	return "folder"
}
