package security

import (
	"context"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/pki"
)

// authorities are the certificate authorities as a [Secret]: new ones under the
// same root issue certificates, and old ones are trusted as long as one of their
// certificates is valid.
type authorities struct {
	*pki.Service
	now func() time.Time
}

// Versions implements [Secret].
func (a authorities) Versions() (all []SecretVersion) {
	for _, set := range a.Sets() {
		v := SecretVersion{
			Version: strconv.Itoa(set.Number), State: SecretOpen,
			CreatedAt: milliseconds(set.Created), ActiveAt: milliseconds(set.Active), RetiredAt: milliseconds(set.Retired),
		}
		switch {
		case !set.Retired.IsZero():
			v.State = SecretRetired
		case set.Issues:
			v.State = SecretActive
		case set.Staged:
			v.State = SecretStaged
		}
		if set.Valid > 0 {
			v.Uses = map[string]int{"certificates": set.Valid}
		}
		all = append(all, v)
	}
	return all
}

// Newest implements [Secret].
func (a authorities) Newest() string { return strconv.Itoa(a.Sets()[0].Number) }

// Stage implements [Secret].
func (a authorities) Stage(ctx context.Context) (string, error) {
	number, err := a.StageSet(ctx)
	return strconv.Itoa(number), err
}

// Activate implements [Secret].
func (a authorities) Activate(ctx context.Context, version string) error {
	number, err := strconv.Atoi(version)
	if err != nil {
		return noSecret(version)
	}
	return a.ActivateSet(ctx, number)
}

// Retire implements [Secret].
func (a authorities) Retire(ctx context.Context, p SecretRetireParams) error {
	var active *pki.Set
	for _, set := range a.Sets() {
		if set.Issues {
			active = &set
		}
		switch version := strconv.Itoa(set.Number); {
		case version != p.Version:
			continue
		case !set.Retired.IsZero():
			return nil
		case set.Issues:
			return protocol.Errorf(protocol.InvalidState, "the authorities of version %s issue certificates; rotate them first", version)
		case set.Staged:
			return protocol.Errorf(protocol.InvalidState, "the authorities of version %s are staged; secret.rotate goes on with them", version)
		}
		if left := active.Active.Add(settle).Sub(a.now()); left > 0 {
			return protocol.Errorf(protocol.InvalidState, "the authorities of version %d have issued for less than %v, and other bridges may be about to issue with older ones", active.Number, settle).
				With("retry_after_ms", left.Milliseconds())
		}
		return a.RetireSet(ctx, set.Number)
	}
	return noSecret(p.Version)
}
