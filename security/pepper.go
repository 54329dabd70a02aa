package security

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/masterkey"
)

// settle is the time after the beginning of a version in which an older one may
// still be written with.
const settle = masterkey.Settle

// A Sealer encrypts values at rest, each bound to its purpose.
type Sealer interface {
	Seal(plain []byte, purpose string) ([]byte, error)
	Open(sealed []byte, purpose string) ([]byte, error)
	// Reseal seals anew a value that an older key has sealed; changed is false for
	// one that the newest has.
	Reseal(sealed []byte, purpose string) (out []byte, changed bool, err error)
}

// A PepperRecord is a version of the pepper at rest, by its number. The first is a
// file, and has a record only once it is retired.
type PepperRecord struct {
	ID      []byte    `json:"id"` // as keys name it
	Created time.Time `json:"created"`
	Active  time.Time `json:"active,omitzero"`  // keys are made under it from then on
	Retired time.Time `json:"retired,omitzero"` // nothing is recognised by it from then on
	Box     []byte    `json:"box,omitempty"`    // the pepper, sealed; nil if it is a file, or retired
}

func pepperPurpose(version int) string { return "pepper/" + strconv.Itoa(version) }

// A pepper is a version that MACs can be made under.
type pepper struct {
	version int
	secret  []byte
	id      []byte
	decoy   []byte    // compared with when the id of a key is unknown, so that both take as long
	active  time.Time // zero for the first
	state   SecretState
}

func newPepper(version int, secret []byte) *pepper {
	return &pepper{version: version, secret: secret, id: mac(secret, "", "")[:pepperIDBytes], decoy: mac(secret, "", "decoy"), state: SecretOpen}
}

// peppers are the versions of the pepper: that of the file, and those in the
// registry. Keys and the versions they are made under are in one log, so a bridge
// that knows a key knows its pepper.
type peppers struct {
	file   *pepper
	table  records.Table[PepperRecord] // nil if only the file's is there
	sealer Sealer
	now    func() time.Time

	changes atomic.Uint64
	known   atomic.Pointer[pepperSet]
}

// A pepperSet is the state of the versions after so many changes.
type pepperSet struct {
	changes uint64
	active  *pepper
	usable  []*pepper // the newest first, staged ones among them
}

// all are the versions by which something is recognised.
func (p *peppers) all() *pepperSet {
	changes := p.changes.Load()
	if set := p.known.Load(); set != nil && set.changes == changes {
		return set
	}
	set := p.read(changes)
	p.known.Store(set)
	return set
}

func (p *peppers) read(changes uint64) *pepperSet {
	set := &pepperSet{changes: changes}
	first := *p.file
	if p.table != nil {
		for key, r := range p.table.All() {
			version, err := strconv.Atoi(key)
			switch {
			case err != nil:
			case bytes.Equal(r.ID, first.id):
				if !r.Retired.IsZero() {
					first.state = SecretRetired
				}
			default:
				if opened := p.open(version, r); opened != nil {
					set.usable = append(set.usable, opened)
				}
			}
		}
	}
	if first.state != SecretRetired {
		set.usable = append(set.usable, &first)
	}
	slices.SortFunc(set.usable, func(a, b *pepper) int { return cmp.Compare(b.version, a.version) })
	for _, one := range set.usable {
		if one.state != SecretStaged {
			one.state, set.active = SecretActive, one
			break
		}
	}
	if set.active == nil { // the master key that the others were sealed with is lost
		set.active = &first
		set.usable = append(set.usable, &first)
	}
	return set
}

// open opens a version; nil for one that is retired or cannot be read.
func (p *peppers) open(version int, r *PepperRecord) *pepper {
	if !r.Retired.IsZero() {
		return nil
	}
	secret, err := p.sealer.Open(r.Box, pepperPurpose(version))
	if err != nil || len(secret) != pepperBytes {
		return nil
	}
	opened := newPepper(version, secret)
	if opened.active = r.Active; r.Active.IsZero() {
		opened.state = SecretStaged
	}
	return opened
}

// active is the version that new MACs are made under.
func (p *peppers) active() *pepper { return p.all().active }

// of is the version by its id, nil if there is none that is of use. MACs of the
// time before versions have no id, and are the file's.
func (p *peppers) of(id []byte) *pepper {
	for _, one := range p.all().usable {
		if bytes.Equal(one.id, id) || len(id) == 0 && one.version == p.file.version {
			return one
		}
	}
	return nil
}

// records lists the versions by number, that of the file among them.
func (p *peppers) records() map[int]PepperRecord {
	all := make(map[int]PepperRecord)
	if p.table != nil {
		for key, r := range p.table.All() {
			if version, err := strconv.Atoi(key); err == nil {
				all[version] = *r
			}
		}
	}
	if one, there := all[p.file.version]; !there || !bytes.Equal(one.ID, p.file.id) {
		all[p.file.version] = PepperRecord{ID: p.file.id}
	}
	return all
}

// Newest implements [Secret].
func (p *peppers) Newest() string {
	if usable := p.all().usable; len(usable) > 0 {
		return strconv.Itoa(usable[0].version)
	}
	return ""
}

// Stage implements [Secret].
func (p *peppers) Stage(ctx context.Context) (string, error) {
	last := 0
	for version, r := range p.records() {
		if version != p.file.version && r.Active.IsZero() && r.Retired.IsZero() && p.of(r.ID) != nil {
			return strconv.Itoa(version), nil
		}
		last = max(last, version)
	}
	secret := make([]byte, pepperBytes)
	_, _ = rand.Read(secret) // never fails
	defer clear(secret)
	made := newPepper(last+1, secret)
	box, err := p.sealer.Seal(secret, pepperPurpose(made.version))
	if err != nil {
		return "", err
	}
	version := strconv.Itoa(made.version)
	_, err = p.table.Create(ctx, version, &PepperRecord{ID: made.id, Created: p.now().UTC(), Box: box})
	if protocol.CodeOf(err) == protocol.AlreadyExists { // another bridge was quicker
		err = nil
	}
	return version, err
}

// Activate implements [Secret].
func (p *peppers) Activate(ctx context.Context, version string) error {
	_, _, err := records.Change(ctx, p.table, version, func(r *PepperRecord, _ uint64) (*PepperRecord, error) {
		switch {
		case r == nil:
			return nil, noSecret(version)
		case !r.Active.IsZero() || !r.Retired.IsZero():
			return r, nil
		case p.of(r.ID) == nil:
			return nil, protocol.Errorf(protocol.InvalidState, "version %s of the pepper cannot be opened with the master key of this bridge", version)
		}
		active := *r
		active.Active = p.now().UTC()
		return &active, nil
	})
	return err
}

// Retire implements [Secret]. The caller has checked the uses of the version.
func (p *peppers) Retire(ctx context.Context, params SecretRetireParams) error {
	version := params.Version
	number, err := strconv.Atoi(version)
	known, there := p.records()[number]
	active := p.active()
	switch {
	case err != nil || !there:
		return noSecret(version)
	case !known.Retired.IsZero():
		return nil
	case number == active.version:
		return protocol.Errorf(protocol.InvalidState, "version %s of the pepper is the one that keys are made under; rotate it first", version)
	case number > active.version:
		return protocol.Errorf(protocol.InvalidState, "version %s of the pepper is staged; secret.rotate goes on with it", version)
	}
	if left := active.active.Add(settle).Sub(p.now()); left > 0 {
		return protocol.Errorf(protocol.InvalidState, "version %d of the pepper has been active for less than %v, and other bridges may be about to store a key under an older one", active.version, settle).
			With("retry_after_ms", left.Milliseconds())
	}
	_, _, err = records.Change(ctx, p.table, version, func(r *PepperRecord, _ uint64) (*PepperRecord, error) {
		if r == nil {
			r = &known
		}
		retired := *r
		retired.Retired, retired.Box = p.now().UTC(), nil
		return &retired, nil
	})
	return err
}

// Versions implements [Secret].
func (p *peppers) Versions() []SecretVersion {
	var all []SecretVersion
	for version, r := range p.records() {
		v := SecretVersion{
			Version: strconv.Itoa(version), State: SecretUnreadable,
			CreatedAt: milliseconds(r.Created), ActiveAt: milliseconds(r.Active), RetiredAt: milliseconds(r.Retired), id: r.ID,
		}
		if one := p.of(r.ID); one != nil {
			v.State = one.state
		} else if v.RetiredAt != 0 {
			v.State = SecretRetired
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b SecretVersion) int {
		return cmp.Compare(len(b.Version), len(a.Version))*2 + cmp.Compare(b.Version, a.Version)
	})
	return all
}

// Reseal seals anew the versions that an older data key has sealed.
func (p *peppers) Reseal(ctx context.Context) (n int, err error) {
	if p.table == nil {
		return 0, nil
	}
	for key := range p.table.All() {
		version, _ := strconv.Atoi(key)
		changed, err := reseal(ctx, p.table, key, p.sealer, pepperPurpose(version), func(r *PepperRecord) *[]byte { return &r.Box })
		if err != nil {
			return n, fmt.Errorf("version %s of the pepper: %w", key, err)
		}
		if changed {
			n++
		}
	}
	return n, nil
}

// reseal seals a value in a record anew, if an older data key has sealed it. One
// that cannot be read stays as it is.
func reseal[T any](ctx context.Context, table records.Table[T], key string, sealer Sealer, purpose string, box func(*T) *[]byte) (changed bool, err error) {
	_, _, err = records.Change(ctx, table, key, func(r *T, _ uint64) (*T, error) {
		if changed = false; r == nil || len(*box(r)) == 0 {
			return r, nil
		}
		anew := *r
		sealed, another, err := sealer.Reseal(*box(r), purpose)
		if err != nil || !another {
			return r, nil
		}
		changed, *box(&anew) = true, sealed
		return &anew, nil
	})
	return changed && err == nil, err
}

func noSecret(version string) error {
	return protocol.Errorf(protocol.NotFound, "there is no version %q of the secret", version).With("version", version)
}
