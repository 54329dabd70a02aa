package security

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/pki"
	"github.com/aibridge/aibridge/security/seal"
)

// confirmWait bounds the time that a rotation waits for the other bridges to know a
// new version. They are told in well under a second, and a dead one is no bridge
// after four.
const confirmWait = 10 * time.Second

// A SecretName names a secret of the bridge that has versions.
type SecretName string

// The secrets that rotate.
const (
	PepperSecret  SecretName = "pepper"
	DataKeySecret SecretName = "data_key"
	SealKeySecret SecretName = "seal_key"
	CAKeySecret   SecretName = "ca_key"
	AuthSecret    SecretName = "authorities"
)

// A SecretState is the use that a version of a secret still has.
type SecretState string

// The states of a version.
const (
	SecretStaged     SecretState = "staged"
	SecretActive     SecretState = "active"
	SecretOpen       SecretState = "open"
	SecretRetired    SecretState = "retired"
	SecretUnreadable SecretState = "unreadable"
)

// A SecretVersion is a version of a secret as commands show it.
type SecretVersion struct {
	Version   string         `json:"version" doc:"its number, or the id of a data key"`
	State     SecretState    `json:"state" doc:"staged: nothing is made with it until all bridges know it; active: what is new is made with it; open: what was made with it still counts; retired: nothing does any more; unreadable: this bridge cannot open it"`
	CreatedAt int64          `json:"created_at,omitempty" doc:"Unix milliseconds, as all times here; absent for the first versions of files in the data folder"`
	ActiveAt  int64          `json:"active_at,omitempty" doc:"since when what is new is made with it; absent for data keys and the first versions of files in the data folder"`
	RetiredAt int64          `json:"retired_at,omitempty" doc:"absent unless it is retired"`
	Uses      map[string]int `json:"uses,omitempty" doc:"things that still need it: api_keys and join_tokens of the pepper, data_keys or authorities that a key file has sealed, and bridges that have it in that file; certificates that authorities have issued and that count; absent for none, and for data keys, of which it is not counted"`
	Bridges   []string       `json:"bridges,omitempty" doc:"bridges that have it in their data folder and no later one, by id; of key files alone"`

	id []byte // as records name it
}

// A SecretView is a secret with its versions.
type SecretView struct {
	Secret   SecretName      `json:"secret" doc:"pepper, which API keys and join tokens are recognised by; data_key, which seals values at rest; seal_key, the file that seals the data keys; ca_key, the file that seals the keys of the authorities; authorities, which issue certificates under the root"`
	Versions []SecretVersion `json:"versions" doc:"the newest first"`
}

// A Secret has versions. New values are made with one of them, and those of each
// version count until it is retired. Each step is one record, written by
// compare-and-set: a bridge that dies in between leaves one with which the next
// rotation goes on.
type Secret interface {
	// Versions lists them, the newest first.
	Versions() []SecretVersion
	// Newest is the newest that this bridge can open, staged or not.
	Newest() string
	// Stage makes a version that nothing is made with yet, or finds the one that a
	// rotation before has left so.
	Stage(ctx context.Context) (version string, err error)
	// Activate has new values be made with a version that is staged.
	Activate(ctx context.Context, version string) error
	// Retire ends the values made with a version.
	Retire(ctx context.Context, p SecretRetireParams) error
}

// A Resealer is a secret that seals values: those that older versions have sealed
// are sealed anew.
type Resealer interface {
	// Reseal seals them, and counts them.
	Reseal(ctx context.Context) (n int, err error)
}

// SecretOptions configure a [SecretService]. Ring is needed.
type SecretOptions struct {
	Ring     *Keyring
	DataKeys *seal.Ring // nil for a bridge that keeps nothing sealed
	KeyFiles []KeyFile  // that have versions
	PKI      *pki.Service
	// Bridges are those that live, or wait to take over. Nil for a bridge that is alone.
	Bridges func() []SecretBridge
	// Stamps are those of credentials of other kinds, by kind, see [Keyring.Stamp].
	Stamps map[string]func() iter.Seq[[]byte]
	// Reseal are the parts that seal anew the values that older data keys have
	// sealed, and count them.
	Reseal []func(context.Context) (int, error)
	// Confirm waits until all bridges of the cluster know the version of a secret, and
	// names those that do not by the end of ctx. Nil for a bridge that is alone.
	Confirm    func(ctx context.Context, secret SecretName, version string) (lacking []string)
	Registerer prometheus.Registerer // nil keeps the metrics to itself
}

// A SecretService rotates the secrets of the bridge while it runs.
type SecretService struct {
	SecretOptions
	secrets map[SecretName]Secret
}

// NewSecretService returns the service for the secrets of a keyring and a ring of
// data keys.
func NewSecretService(o SecretOptions) (*SecretService, error) {
	s := &SecretService{SecretOptions: o, secrets: make(map[SecretName]Secret)}
	if o.DataKeys != nil {
		s.secrets[DataKeySecret] = dataKeys{s}
		if o.Ring.peppers.table != nil {
			s.secrets[PepperSecret] = o.Ring.peppers
		}
	}
	if o.PKI != nil {
		s.secrets[AuthSecret] = authorities{o.PKI, func() time.Time { return o.Ring.now() }}
	}
	for _, file := range o.KeyFiles {
		s.secrets[file.Secret] = keyFile{file, s}
	}
	return s, s.registerMetrics(o.Registerer)
}

// Commands are the commands of the family.
func (s *SecretService) Commands() []commands.Command {
	return []commands.Command{
		commands.New(secretStatus, s.Status),
		commands.New(secretRotate, s.Rotate),
		commands.New(secretRetire, s.Retire),
	}
}

// Newest names the newest version of each secret that this bridge knows, for
// [SecretOptions.Confirm] of the others.
func (s *SecretService) Newest() map[SecretName]string {
	all := make(map[SecretName]string, len(s.secrets))
	for name, secret := range s.secrets {
		all[name] = secret.Newest()
	}
	return all
}

// administrator refuses all other principals: the secrets are those of all spaces.
func administrator(who *protocol.Principal) error {
	if who.Unbounded() {
		return nil
	}
	return protocol.Errorf(protocol.PermissionDenied, "the secrets of the bridge are those of all spaces: only an administrator sees and rotates them")
}

func (s *SecretService) secret(name SecretName) (Secret, error) {
	if secret := s.secrets[name]; secret != nil {
		return secret, nil
	}
	return nil, protocol.Errorf(protocol.InvalidState, "this bridge keeps nothing sealed")
}

// view shows a secret, with the uses of its versions.
func (s *SecretService) view(name SecretName) SecretView {
	v := SecretView{Secret: name, Versions: s.secrets[name].Versions()}
	if name != PepperSecret {
		return v
	}
	uses := s.uses()
	for i := range v.Versions {
		v.Versions[i].Uses = uses[string(v.Versions[i].id)]
	}
	return v
}

// uses counts the values that need each version of the pepper, by id and kind.
func (s *SecretService) uses() map[string]map[string]int {
	all := make(map[string]map[string]int)
	count := func(pepper []byte, kind string) {
		if len(pepper) == 0 {
			pepper = s.Ring.peppers.file.id
		}
		if all[string(pepper)] == nil {
			all[string(pepper)] = make(map[string]int)
		}
		all[string(pepper)][kind]++
	}
	now := s.Ring.now()
	for _, key := range s.Ring.keys.All() {
		if key.live(now) {
			count(key.Pepper, "api_keys")
		}
	}
	for kind, stamps := range s.Stamps {
		for stamp := range stamps() {
			pepper, _ := splitStamp(stamp)
			count(pepper, kind)
		}
	}
	return all
}

// dataKeys are the data keys as a [Secret].
type dataKeys struct{ service *SecretService }

func (k dataKeys) ring() *seal.Ring { return k.service.DataKeys }

// Stage implements [Secret].
func (k dataKeys) Stage(ctx context.Context) (string, error) { return k.ring().Stage(ctx) }

// Activate implements [Secret].
func (k dataKeys) Activate(ctx context.Context, version string) error {
	return k.ring().Activate(ctx, version)
}

// Reseal implements [Resealer].
func (k dataKeys) Reseal(ctx context.Context) (int, error) { return k.service.reseal(ctx) }

// Versions implements [Secret].
func (k dataKeys) Versions() (all []SecretVersion) {
	for _, key := range k.ring().List() {
		v := SecretVersion{Version: key.ID, State: SecretOpen, CreatedAt: milliseconds(key.Created)}
		switch {
		case key.Lost:
			v.State = SecretUnreadable
		case key.Staged:
			v.State = SecretStaged
		case key.Seals:
			v.State = SecretActive
		}
		all = append(all, v)
	}
	return all
}

// Newest implements [Secret].
func (k dataKeys) Newest() string {
	for _, key := range k.ring().List() {
		if !key.Lost {
			return key.ID
		}
	}
	return ""
}

// Retire implements [Secret].
func (k dataKeys) Retire(_ context.Context, p SecretRetireParams) error {
	if !slices.ContainsFunc(k.ring().List(), func(v seal.View) bool { return v.ID == p.Version }) {
		return noSecret(p.Version)
	}
	return protocol.Errorf(protocol.InvalidState, "data keys are not retired: logs that are only added to, such as records of runs and the audit trail, need those that they were sealed with")
}

// Reseal seals anew the keyring's own values that older data keys have sealed:
// versions of the pepper, and secrets of access keys.
func (r *Keyring) Reseal(ctx context.Context) (n int, err error) {
	n, err = r.peppers.Reseal(ctx)
	if r.peppers.sealer == nil || err != nil {
		return n, err
	}
	for id := range r.keys.All() {
		changed, err := reseal(ctx, r.keys, id, r.peppers.sealer, accessPurpose(id), func(k *Key) *[]byte { return &k.AccessBox })
		if err != nil {
			return n, err
		}
		if changed {
			n++
		}
	}
	return n, nil
}

// confirm waits until all bridges know a version.
func (s *SecretService) confirm(ctx context.Context, name SecretName, version string) error {
	if s.Confirm == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, confirmWait)
	defer cancel()
	lacking := s.Confirm(ctx, name, version)
	if len(lacking) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return protocol.Errorf(protocol.InvalidState, "%s of the cluster did not confirm in time that they know version %s, so nothing is made with it yet; secret.rotate goes on with it once they run, in this release or a later one",
		strings.Join(lacking, ", "), version).With("version", version).With("lacking", lacking)
}
