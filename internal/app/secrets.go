package app

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/security"
)

// secretsNote is the part of a bridge's record with the versions of the secrets
// that it knows.
const secretsNote = "secrets"

// newSecrets makes the part that rotates secrets. The tables are loaded.
func newSecrets(s *state, d *domains, ring *security.Keyring) (*security.SecretService, error) {
	options := security.SecretOptions{
		Ring: ring, DataKeys: s.seals.Ring, Registerer: s.metrics, PKI: d.identities.pki,
		Stamps: map[string]func() iter.Seq[[]byte]{"join_tokens": d.agents.JoinStamps},
		Reseal: []func(context.Context) (int, error){d.files.Reseal, d.remote.Reseal},
	}
	if s.chains != nil {
		options.Reseal = append(options.Reseal, s.chains.Reseal)
	}
	options.KeyFiles = []security.KeyFile{
		{Secret: security.SealKeySecret, File: s.seals.File, What: "data_keys", Sealed: s.seals.Wrapped, Follow: s.seals.Follow},
		{Secret: security.CAKeySecret, File: s.caKey, What: "authorities", Sealed: d.identities.pki.Sealed, Follow: d.identities.pki.FollowKeyFile},
	}
	if s.Members.Shared() {
		options.Bridges = s.secretBridges
	}
	if s.Members.Shared() && s.Members.Working() == cluster.All {
		options.Confirm = s.confirmSecret
	}
	secrets, err := security.NewSecretService(options)
	if err != nil {
		return nil, err
	}
	s.life.Run("versions of secrets", tellSecrets(s, secrets, d.identities.tables))
	for _, file := range options.KeyFiles {
		s.life.Run("versions of "+file.File.Name(), keepSealed(s, file))
	}
	return secrets, nil
}

// secretBridges are the bridges of the cluster with the reported states of their key
// files.
func (s *state) secretBridges() (all []security.SecretBridge) {
	keys := s.Members.Keys()
	for _, m := range s.Members.Members() {
		all = append(all, security.SecretBridge{ID: m.ID, Waits: m.State == cluster.Standby, Files: keys[m.ID]})
	}
	return all
}

// resealAgain is the time that a bridge waits before it tries again to follow a key file.
const resealAgain = 5 * time.Second

// keepSealed has this bridge follow the versions of a key file, until ctx ends: the
// active one is put into the file, and records that an older one has sealed are
// sealed anew, also those that another bridge has left half done.
func keepSealed(s *state, file security.KeyFile) func(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	follow(s.sealTables.Masters, changed)
	follow(s.sealTables.Keys, changed)
	return func(ctx context.Context) error {
		for {
			var again <-chan time.Time
			if _, err := file.Follow(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("the next version of a key file is not used everywhere yet", "file", file.File.Name(), "error", err)
				again = time.After(resealAgain)
			}
			select {
			case <-changed:
			case <-again:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// tellSecrets publishes the versions that this bridge knows to the others, until ctx
// ends.
func tellSecrets(s *state, secrets *security.SecretService, tables *credentialTables) func(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	follow(s.sealTables.Keys, changed)
	follow(s.sealTables.Masters, changed)
	follow(tables.peppers, changed)
	follow(tables.pki.authorities, changed)
	return func(ctx context.Context) error {
		for {
			select {
			case <-changed:
				known, err := json.Marshal(secrets.Newest())
				if err != nil {
					return err
				}
				if err := tellKeys(s); err != nil { // before any bridge has the version in its file
					return err
				}
				if err := s.Members.Note(secretsNote, string(known)); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// tellKeys publishes the fingerprints of the key files with which a bridge may join.
func tellKeys(s *state) error {
	if !s.Members.Shared() {
		return nil
	}
	keys, err := storage.Fingerprints(&s.config, s.seals.File, s.caKey)
	if err == nil {
		s.Members.Tell(func(r *cluster.Record) { r.Keys = keys })
	}
	return err
}

// follow leaves a token whenever a table changes.
func follow[T any](table records.Table[T], changed chan<- struct{}) {
	table.OnChange(func(string, *T, *T) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
}

// confirmSecret waits until all bridges know the version of a secret, and names those
// that do not by the end of ctx.
func (s *state) confirmSecret(ctx context.Context, secret security.SecretName, version string) (lacking []string) {
	changed := make(chan struct{}, 1)
	stop := s.Members.Watch(func(cluster.Change) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer stop()
	for {
		lacking = nil
		for _, m := range s.Members.Members() {
			known := make(map[security.SecretName]string)
			if json.Unmarshal([]byte(m.Notes[secretsNote]), &known) != nil || known[secret] != version {
				lacking = append(lacking, m.ID)
			}
		}
		if len(lacking) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return lacking
		}
	}
}
