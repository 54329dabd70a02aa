package security

import (
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/masterkey"
)

// A KeyFile is a file in the data folder with a key that others are sealed with. All
// fields are needed.
type KeyFile struct {
	Secret SecretName
	File   *masterkey.File
	What   string                                   // the values sealed with it, as uses name them
	Sealed func() map[string]int                    // how many of those there are, by the id of the version
	Follow func(context.Context) (n int, err error) // seals them with the active version, and has that in the file
}

// A SecretBridge is a bridge of the cluster as the retirement of a version sees it.
type SecretBridge struct {
	ID    string
	Waits bool // to take over: it has read no registry, and knows of no later version than its files have
	// Files are the fingerprints of those, by name.
	Files map[string]string
}

// keyFile is a key file as a [Secret].
type keyFile struct {
	KeyFile
	service *SecretService
}

// Versions implements [Secret].
func (k keyFile) Versions() (all []SecretVersion) {
	sealed := k.Sealed()
	for _, v := range k.views() {
		one := SecretVersion{
			Version: v.Number(), State: SecretState(v.State), Bridges: v.Bridges,
			CreatedAt: milliseconds(v.Created), ActiveAt: milliseconds(v.Active), RetiredAt: milliseconds(v.Retired),
		}
		for what, n := range map[string]int{k.What: sealed[v.ID], "bridges": len(v.Bridges)} {
			if n > 0 && one.Uses == nil {
				one.Uses = make(map[string]int)
			}
			if n > 0 {
				one.Uses[what] = n
			}
		}
		all = append(all, one)
	}
	return all
}

// views are the versions, with the bridges that wait to take over among those that
// have them.
func (k keyFile) views() []masterkey.View {
	all := k.File.Versions()
	for _, b := range k.service.bridges() {
		at := slices.IndexFunc(all, func(v masterkey.View) bool { return v.ID == b.Files[k.File.Name()] })
		if at >= 0 && b.Waits && !slices.Contains(all[at].Bridges, b.ID) {
			all[at].Bridges = slices.Sorted(slices.Values(append(all[at].Bridges, b.ID)))
		}
	}
	return all
}

// Newest implements [Secret].
func (k keyFile) Newest() string { return k.File.Newest() }

// Stage implements [Secret].
func (k keyFile) Stage(ctx context.Context) (string, error) { return k.File.Stage(ctx) }

// Activate implements [Secret].
func (k keyFile) Activate(ctx context.Context, version string) error {
	return k.File.Activate(ctx, version)
}

// Reseal implements [Resealer].
func (k keyFile) Reseal(ctx context.Context) (int, error) { return k.Follow(ctx) }

// Retire implements [Secret]. It is refused while something is sealed with the
// version, or a bridge has no later one.
func (k keyFile) Retire(ctx context.Context, p SecretRetireParams) error {
	all := k.Versions()
	at := slices.IndexFunc(all, func(v SecretVersion) bool { return v.Version == p.Version })
	if at < 0 {
		return noSecret(p.Version)
	}
	v := all[at]
	if v.State == SecretOpen && v.Uses[k.What] > 0 {
		return protocol.Errorf(protocol.InvalidState, "version %s is still needed: the bridges seal anew what is sealed with it, which takes a moment", p.Version).With("uses", v.Uses)
	}
	for _, b := range k.service.bridges() {
		if slices.Contains(p.Gone, b.ID) {
			return protocol.Errorf(protocol.InvalidState, "bridge %q is there, and not gone", b.ID)
		}
	}
	waits := slices.DeleteFunc(slices.Clone(v.Bridges), func(id string) bool { return slices.Contains(p.Gone, id) })
	if v.State == SecretOpen && len(waits) > 0 {
		return protocol.Errorf(protocol.InvalidState, "version %s of %s is all that %s has; start it, so that it takes the next, or name it in gone if it will not come back", p.Version, k.File.Name(), strings.Join(waits, ", ")).
			With("uses", v.Uses).With("bridges", waits)
	}
	return k.File.Retire(ctx, p.Version, p.Gone)
}

// bridges are those that live or wait to take over, beside one that is alone.
func (s *SecretService) bridges() []SecretBridge {
	if s.Bridges == nil {
		return nil
	}
	return s.Bridges()
}
