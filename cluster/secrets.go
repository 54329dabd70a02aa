package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// secretsID is the key of the record with the fingerprints of the secrets that the state
// was written with. No bridge has such an id. To earlier releases it is a bridge that
// has left.
const secretsID = "<secrets>"

// A Foreign is the error of a bridge that starts alone on a state that was written with
// other secrets than it has.
type Foreign struct {
	Files []string // that differ, or are not there
	By    string   // id of the bridge that worked with the right ones last
}

func (f *Foreign) Error() string {
	return fmt.Sprintf("%s in the data folder differ from those with which the state in NATS was written, or are not there: copy them from bridge %q, or from where they were saved, or give this bridge another root if the state is another cluster's. If they are lost for good, start it once with accept_loss; API keys, authorities and sealed values of before are of no use then",
		strings.Join(f.Files, ", "), f.By)
}

// Unwrap is the error as callers see it.
func (f *Foreign) Unwrap() error { return protocol.Errorf(protocol.StoreUnavailable, "%s", f.Error()) }

// foreign returns a [Foreign] if this node, which is about to join where no other one
// lives, has other secrets than the state. The caller holds mu.
func (m *Membership) foreign() error {
	if m.o.Working != All || m.o.NewSecrets || m.machine.phase != candidate {
		return nil
	}
	written := Record{Keys: m.secrets.record.Keys, Member: Member{State: Serving}}
	if files := m.mine.strangers(&written, m.o.Rotating); len(files) > 0 {
		return &Foreign{files, m.secrets.record.By}
	}
	return nil
}

// keepSecrets records the fingerprints of the secrets that the state is written with, as
// the oldest that serves has them. It does so where one works at a time, too: all may work
// later, after a rotation.
func (m *Membership) keepSecrets(ctx context.Context) {
	m.mu.Lock()
	due := m.machine.oldest() && m.mine.State == Serving && len(m.mine.Keys) > 0 && !maps.Equal(m.mine.Keys, m.secrets.record.Keys)
	r := Record{Schema: recordSchema, Keys: maps.Clone(m.mine.Keys), By: m.o.ID, Member: Member{Node: Node{ID: secretsID}, State: Left}}
	after := m.secrets.revision
	m.mu.Unlock()
	if !due {
		return
	}
	data, err := r.encode()
	if err != nil {
		m.o.Log.Error("the fingerprints of the secrets are not stored", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	revision, err := m.stream.Write(ctx, secretsID, data, after, 0)
	if err != nil {
		if !errors.Is(err, ErrTaken) { // else the next round knows the other one
			m.o.Log.Debug("the fingerprints of the secrets were not confirmed", "error", err)
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sawSecrets(entry{id: secretsID, revision: revision, record: r})
}

// sawSecrets takes up the record of secrets, unless a newer one is known. The caller
// holds mu.
func (m *Membership) sawSecrets(e entry) {
	if e.revision > m.secrets.revision {
		m.secrets = e
	}
}
