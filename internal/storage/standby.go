package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/keyfile"
	"github.com/aibridge/aibridge/security/masterkey"
	"github.com/aibridge/aibridge/security/pki"
	"github.com/aibridge/aibridge/security/seal"
)

const (
	firstConnectWait = 500 * time.Millisecond
	lastConnectWait  = 5 * time.Second
)

// reach reaches NATS. An external one that is away is waited for, and so is the end of
// another bridge of the cluster that has the id of this one.
func (o *Options) reach(ctx context.Context) (*natsd.Server, error) {
	for wait := firstConnectWait; ; wait = min(2*wait, lastConnectWait) {
		nats, err := Connect(o.Config, o.Log)
		switch {
		case errors.Is(err, natsd.ErrTwin):
			o.waits(fmt.Sprintf("this bridge waits until the other one has ended: %v", err))
		case errors.Is(err, natsd.ErrAway):
			o.Waiting("the bridge waits for NATS, which does not answer")
			o.Log.WarnContext(ctx, "NATS is away; the bridge waits for it", "error", err)
		default:
			return nats, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// join makes the bridge a member of its cluster, and returns once it may work. A
// bridge with the embedded NATS is alone: its folder has one process.
func (o *Options) join(ctx context.Context, nats *natsd.Server) (*cluster.Membership, error) {
	c := &o.Config
	agree := c.Cluster.Agreement()
	agree["nats.replicas"] = strconv.Itoa(c.Replicas())
	identity := cluster.Options{
		ID: c.ID, Version: o.Version, Newer: o.Newer, Working: cluster.Working(c.Cluster.Working), Log: o.Log, Agree: agree, Keeps: c.Cluster.Keeps(), Clock: o.Clock,
		Waiting: func(reason string) {
			o.Waiting(reason)
			o.Log.InfoContext(ctx, "waiting as a standby: another bridge serves the same root on the same NATS", "root", c.Root, "why", reason)
		},
	}
	if !c.Shared() {
		m := cluster.Alone(identity)
		o.Life.Add("membership", m.Leave)
		return m, nil
	}
	var err error
	identity.NewSecrets = c.AcceptLoss
	identity.Rotating = []string{pki.KeyFile, seal.KeyFile}
	if identity.Keys, err = Fingerprints(c); err != nil {
		return nil, err
	}
	pepper := o.firstPepper(identity.Keys)
	if err := o.checkPayload(nats); err != nil {
		return nil, err
	}
	var records *store.Members
	err = o.placed(ctx, nats, func() (err error) {
		records, err = store.OpenMembers(ctx, nats.State(), c.Root, c.Replicas(), func(err error) {
			o.Log.WarnContext(ctx, "NATS does not make streams yet", "error", err)
		})
		return err
	})
	if err != nil {
		return nil, o.copiesRefused(err)
	}
	o.Life.Add("records of members", func(context.Context) error { records.Close(); return nil })
	m, err := cluster.Join(ctx, reachable{records, nats}, identity)
	if why := (*cluster.Removed)(nil); errors.As(err, &why) {
		o.removed(ctx, nats, why)
	}
	if err != nil {
		return nil, err
	}
	o.Life.Add("membership", func(ctx context.Context) error { o.leave(ctx, m); return nil })
	if pepper != nil {
		if err := keyfile.Write(filepath.Join(c.Data, security.PepperFile), pepper); err != nil {
			return nil, fmt.Errorf("write the pepper: %w", err)
		}
	}
	o.Metrics.MustRegister(m.Metrics()...)
	o.Log.InfoContext(ctx, "this bridge is one that serves", "root", c.Root, "epoch", m.Self().Epoch, "members", len(m.Members()))
	return m, o.copiesRefused(records.Adjust(ctx))
}

// firstPepper makes a pepper, and adds its fingerprint to those of the secrets, for a
// bridge without one that works beside others; else it is nil. Several such bridges that
// start together differ from the first record on, so that the first to join goes on and
// the others do not start. It becomes a file once this bridge has joined.
func (o *Options) firstPepper(keys map[string]string) []byte {
	if keys[security.PepperFile] != "" || o.Config.Cluster.Working != string(cluster.All) {
		return nil
	}
	pepper := security.NewPepper()
	keys[security.PepperFile] = keyfile.Fingerprint(security.PepperFile, pepper)
	return pepper
}

// copiesRefused is the error, with the remedy, where NATS cannot keep as many copies as
// it is to.
func (o *Options) copiesRefused(err error) error {
	if !store.TooFewServers(err) {
		return err
	}
	return fmt.Errorf("NATS cannot keep %d copies of the state, which nats.replicas asks for: that takes as many servers that form a cluster, with JetStream. Start them, or set nats.replicas: 1 on all bridges if one copy will do: %w", o.Config.Replicas(), err)
}

// leave records for the others that this bridge ends. If that cannot be stored, as
// when all of them are stopped together, nothing is lost: they find out.
func (o *Options) leave(ctx context.Context, m *cluster.Membership) {
	if err := m.Leave(ctx); err != nil {
		o.Log.WarnContext(ctx, "the others will find out that this bridge has ended", "error", err)
	}
}

// reachable are the records of members at a NATS in this process, which can always
// be reached and yet be cut off from the others.
type reachable struct {
	*store.Members
	nats *natsd.Server
}

// Connected implements [cluster.Stream].
func (r reachable) Connected() bool { return r.Members.Connected() && !r.nats.Isolated() }

// Fingerprints identify the secrets in the data folder that all bridges of a
// cluster must share, by file. Files that are not there yet are left out. Of those
// that have versions, as a bridge that serves knows, there are those of all that
// are accepted.
func Fingerprints(c *config.Config, versions ...*masterkey.File) (map[string]string, error) {
	keys := make(map[string]string)
	for _, file := range []string{security.PepperFile, pki.KeyFile, seal.KeyFile} {
		secret, err := os.ReadFile(filepath.Join(c.Data, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("a key that bridges of a cluster share: %w", err)
		}
		keys[file] = keyfile.Fingerprint(file, secret)
	}
	for _, file := range versions {
		if _, there := keys[file.Name()]; there {
			keys[file.Name()] = strings.Join(file.Accepted(), " ")
		}
	}
	return keys, nil
}

// leastPayload is the largest message that NATS must take at least, for bridges
// that work together: their records and messages to each other come in pieces of
// it.
const leastPayload = 256 << 10

// checkPayload compares the largest message of NATS with the largest packet of clients.
func (o *Options) checkPayload(nats *natsd.Server) error {
	most := nats.State().MaxPayload()
	if err := smallPayload(&o.Config, most); err != nil {
		return err
	}
	warnOfPayload(&o.Config, most, o.Log)
	return nil
}

// smallPayload is the error of a bridge that works with others on a NATS that does not
// take their messages.
func smallPayload(c *config.Config, most int64) error {
	if c.Cluster.Working != string(cluster.All) || most >= leastPayload {
		return nil
	}
	return fmt.Errorf("NATS takes messages of up to %d bytes, and bridges that work together need %d: raise max_payload of its servers, best to 8MB", most, leastPayload)
}

func warnOfPayload(c *config.Config, most int64, log *slog.Logger) {
	if most >= int64(c.Limits.Payload)+64<<10 {
		return
	}
	log.Warn("NATS takes smaller messages than clients may send: requests close to the limit may be refused with 1004; raise max_payload of its servers, best to 8MB, or lower limits.payload",
		"max_payload", most, "limits.payload", c.Limits.Payload)
}

// checkPayload repeats the check of the start: max_payload may be another one since the
// connection to NATS came back.
func (s *Storage) checkPayload() error {
	if !s.config.Shared() {
		return nil
	}
	most := s.NATS.State().MaxPayload()
	err := smallPayload(&s.config, most)
	if s.payload.Swap(most) != most {
		if err != nil {
			s.log.Error("the bridge is not ready", "error", err)
		}
		warnOfPayload(&s.config, most, s.log)
	}
	if err != nil {
		return protocol.Wrap(protocol.StoreUnavailable, err, err.Error())
	}
	return nil
}
