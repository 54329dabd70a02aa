package app

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/seal"
)

// secretsNote is the part of a bridge's record that says which versions of the
// secrets it knows.
const secretsNote = "secrets"

// newSecrets makes the part that rotates secrets. The tables are loaded.
func newSecrets(s *state, d *domains, ring *security.Keyring) *security.SecretService {
	options := security.SecretOptions{
		Ring: ring, DataKeys: s.seals.Ring,
		Stamps: map[string]func() iter.Seq[[]byte]{"join_tokens": d.agents.JoinStamps},
		Reseal: []func(context.Context) (int, error){d.files.Reseal, d.remote.Reseal},
	}
	if s.chains != nil {
		options.Reseal = append(options.Reseal, s.chains.Reseal)
	}
	if s.Members.Shared() && s.Members.Working() == cluster.All {
		options.Confirm = s.confirmSecret
	}
	secrets := security.NewSecretService(options)
	s.life.Run("versions of secrets", tellSecrets(s, secrets, d.identities.tables.peppers))
	return secrets
}

// tellSecrets tells the other bridges which versions this one knows, until ctx ends.
func tellSecrets(s *state, secrets *security.SecretService, peppers records.Table[security.PepperRecord]) func(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	follow[seal.DataKey](s.dataKeys, changed)
	follow(peppers, changed)
	return func(ctx context.Context) error {
		for {
			select {
			case <-changed:
				known, err := json.Marshal(secrets.Newest())
				if err != nil {
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
