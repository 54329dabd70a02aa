package pki

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// The authorities that issue no certificates of clients.
const (
	rootName   = "root"
	serverName = "server" // signs the bridge's own server certificate
)

// A KeyType says which keys the authorities get.
type KeyType string

// The key types.
const (
	ECDSA   KeyType = "ecdsa" // P-256
	Ed25519 KeyType = "ed25519"
)

const (
	rootLife         = 20 * 365 * 24 * time.Hour
	intermediateLife = 15 * 365 * 24 * time.Hour

	hierarchyKey = "authorities"
)

// An issuer is one authority, ready to work. Without its key it only knows its
// own.
type issuer struct {
	name   string
	set    int // number of the authorities that it is one of
	cert   *x509.Certificate
	signer crypto.Signer // nil while sealed
	locked error         // why
}

// sealed is the error for acts that need a key that is not here.
func (i *issuer) sealed() error {
	return protocol.Wrap(protocol.InvalidState, i.locked, "the authority's key is not open on this bridge")
}

// firstSet is the number of the authorities of the first start.
const firstSet = 1

// A caSet is the authorities that were made together, under one root.
type caSet struct {
	number  int
	server  *issuer
	grants  map[Authority]*issuer
	created time.Time
	active  time.Time // zero for the first, and those that are staged
	retired time.Time
}

// A hierarchy is all authorities. It is never changed.
type hierarchy struct {
	root   *issuer
	sets   []*caSet // the newest first
	issues *caSet   // the one that new certificates are of
}

// server is the authority of the bridge's own certificate.
func (h *hierarchy) server() *issuer { return h.issues.server }

// granting is the authority that issues certificates of a kind.
func (h *hierarchy) granting(a Authority) *issuer { return h.issues.grants[a] }

// signed is the authority that has signed a certificate of a kind, by the id of its
// key; the newest of the kind if none has.
func (h *hierarchy) signed(a Authority, keyID []byte) *issuer {
	for _, set := range h.sets {
		if i := set.grants[a]; i != nil && bytes.Equal(i.cert.SubjectKeyId, keyID) {
			return i
		}
	}
	return h.granting(a)
}

// set is the authorities of a number, nil if there are none.
func (h *hierarchy) set(number int) *caSet {
	for _, set := range h.sets {
		if set.number == number {
			return set
		}
	}
	return nil
}

// pool holds the authorities that client certificates must chain to. The root
// is not among them: certificates that it signs are for the bridge's own use, and
// identify no client.
func (h *hierarchy) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, set := range h.sets {
		for _, i := range set.grants {
			if set.retired.IsZero() {
				pool.AddCert(i.cert)
			}
		}
	}
	return pool
}

func newKey(kind KeyType) (crypto.Signer, error) {
	if kind == Ed25519 {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// openHierarchy loads the authorities, or makes them if there are none. Of
// several bridges that start for the first time together one is quicker, and
// the others take its hierarchy.
func openHierarchy(ctx context.Context, o *Options, seal *sealer) (*hierarchy, error) {
	if _, _, ok := o.Authorities.Get(hierarchyKey); !ok {
		made, err := makeHierarchy(ctx, o, seal)
		if err != nil {
			return nil, fmt.Errorf("make the authorities: %w", err)
		}
		_, err = o.Authorities.Create(ctx, hierarchyKey, made)
		if err == nil {
			o.Log.Info("made the certificate authorities")
		} else if protocol.CodeOf(err) != protocol.AlreadyExists {
			return nil, err
		}
	}
	h, err := awaitHierarchy(ctx, o, seal)
	if err != nil {
		return nil, err
	}
	_, err = h.reseal(ctx, o, seal)
	return h, err
}

// A bridge waits so long, and looks so often, for authorities that another has made.
const (
	hierarchyWait = 10 * time.Second
	hierarchyLook = 50 * time.Millisecond
)

// awaitHierarchy is [loadHierarchy] for a bridge that starts: in a cluster that has
// just formed, the authorities that another bridge stored may not be visible here
// yet.
func awaitHierarchy(ctx context.Context, o *Options, seal *sealer) (*hierarchy, error) {
	for end := time.Now().Add(hierarchyWait); ; {
		h, err := loadHierarchy(o, seal)
		if !errors.Is(err, errIncomplete) || time.Now().After(end) {
			return h, err
		}
		select {
		case <-time.After(hierarchyLook):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// setKey is the key of the record of the authorities of a number.
func setKey(number int) string {
	if number <= firstSet {
		return hierarchyKey
	}
	return hierarchyKey + "/" + strconv.Itoa(number)
}

// makeHierarchy makes all authorities. A key that is held elsewhere is used
// where it is.
func makeHierarchy(ctx context.Context, o *Options, seal *sealer) (*Hierarchy, error) {
	now := o.Now().UTC()
	made := &Hierarchy{Created: now}
	root, err := makeCA(ctx, made, rootName, nil, now, o, seal)
	if err != nil {
		return nil, err
	}
	return made, makeSet(ctx, made, root, now, o, seal)
}

// makeSet makes the authorities under a root.
func makeSet(ctx context.Context, into *Hierarchy, root *issuer, now time.Time, o *Options, seal *sealer) error {
	names := []string{serverName}
	for _, a := range Authorities() {
		names = append(names, string(a))
	}
	for _, name := range names {
		if _, err := makeCA(ctx, into, name, root, now, o, seal); err != nil {
			return err
		}
	}
	return nil
}

// makeCA makes one authority, signed by its parent, or by itself without one.
func makeCA(ctx context.Context, into *Hierarchy, name string, parent *issuer, now time.Time, o *Options, seal *sealer) (*issuer, error) {
	signer := o.Signers[name]
	elsewhere := signer != nil
	if !elsewhere {
		var err error
		if signer, err = newKey(o.KeyType); err != nil {
			return nil, err
		}
	}
	serial := make([]byte, 16)
	_, _ = rand.Read(serial) // never fails
	serial[0] |= 0x40        // longer than any that an authority grants
	serial[0] &= 0x7f
	template := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(serial),
		Subject:               pkix.Name{Organization: []string{"AI Bridge " + o.BridgeID}, CommonName: "AI Bridge " + name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(rootLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		MaxPathLen:            1,
	}
	from := &issuer{name: name, cert: template, signer: signer}
	if parent != nil {
		from = parent
		template.NotAfter = earlier(now.Add(intermediateLife), parent.cert.NotAfter)
		template.MaxPathLen, template.MaxPathLenZero = 0, true
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if name == serverName {
			template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, from.cert, signer.Public(), from.signer)
	if err != nil {
		return nil, fmt.Errorf("authority %s: %w", name, err)
	}
	ca := CA{Name: name, DER: der}
	if !elsewhere {
		if ca.Key, err = seal.seal(ctx, name, signer); err != nil {
			return nil, err
		}
	}
	into.CAs = append(into.CAs, ca)
	cert, err := x509.ParseCertificate(der)
	return &issuer{name: name, cert: cert, signer: signer}, err
}

// loadHierarchy opens the stored authorities. Without their keys they still
// recognise their own certificates.
func loadHierarchy(o *Options, seal *sealer) (*hierarchy, error) {
	h := new(hierarchy)
	for key, stored := range o.Authorities.All() {
		set, root, err := loadSet(stored, o, seal)
		if err != nil {
			return nil, err
		}
		if key == hierarchyKey {
			h.root = root
		}
		h.sets = append(h.sets, set)
	}
	if h.root == nil {
		return nil, fmt.Errorf("%w: there is no root", errIncomplete)
	}
	slices.SortFunc(h.sets, func(a, b *caSet) int { return cmp.Compare(b.number, a.number) })
	for _, set := range h.sets {
		if err := set.check(h.root); err != nil {
			return nil, err
		}
		if h.issues == nil && (set.number == firstSet || !set.active.IsZero()) {
			h.issues = set
		}
	}
	if h.issues == nil {
		return nil, fmt.Errorf("%w: none issues", errIncomplete)
	}
	return h, nil
}

var errIncomplete = errors.New("the stored authorities are not complete")

// loadSet opens the authorities of a record, and the root if it is among them.
func loadSet(stored *Hierarchy, o *Options, seal *sealer) (set *caSet, root *issuer, err error) {
	set = &caSet{
		number: max(stored.Number, firstSet), grants: make(map[Authority]*issuer),
		created: stored.Created, active: stored.Active, retired: stored.Retired,
	}
	for _, ca := range stored.CAs {
		i, err := loadCA(ca, o, seal)
		if err != nil {
			return nil, nil, fmt.Errorf("authority %s: %w", ca.Name, err)
		}
		i.set = set.number
		switch ca.Name {
		case rootName:
			root = i
		case serverName:
			set.server = i
		default:
			set.grants[Authority(ca.Name)] = i
		}
	}
	return set, root, nil
}

// check returns an error if an authority is missing or not signed by the root.
func (s *caSet) check(root *issuer) error {
	all := []*issuer{s.server}
	for _, a := range Authorities() {
		all = append(all, s.grants[a])
	}
	for _, i := range all {
		if i == nil {
			return fmt.Errorf("%w: one of version %d is missing", errIncomplete, s.number)
		}
		if err := i.cert.CheckSignatureFrom(root.cert); err != nil {
			return fmt.Errorf("authority %s is not under the root: %w", i.name, err)
		}
	}
	return nil
}

func loadCA(ca CA, o *Options, seal *sealer) (*issuer, error) {
	cert, err := x509.ParseCertificate(ca.DER)
	if err != nil {
		return nil, err
	}
	i := &issuer{name: ca.Name, cert: cert}
	switch signer := o.Signers[ca.Name]; {
	case signer != nil && equalKeys(signer.Public(), cert.PublicKey):
		i.signer = signer
	case signer != nil:
		return nil, errors.New("the key held elsewhere is not the one of its certificate")
	case ca.Key == nil:
		i.locked = errors.New("its key is held elsewhere, or removed")
	default:
		i.signer, i.locked = seal.open(ca.Name, ca.Key, cert.PublicKey)
	}
	if i.locked != nil {
		o.Log.Warn("an authority cannot issue certificates", "authority", ca.Name, "reason", i.locked)
	}
	return i, nil
}

// reseal stores the keys sealed as configured now, after a passphrase was set or
// the key file got its next version, and counts them.
func (h *hierarchy) reseal(ctx context.Context, o *Options, seal *sealer) (n int, err error) {
	for _, set := range h.sets {
		anew, err := h.resealSet(ctx, set, o, seal)
		if n += anew; err != nil {
			return n, err
		}
	}
	if n > 0 {
		o.Log.Info("sealed the authorities' keys anew", "by", seal.method())
	}
	return n, nil
}

func (h *hierarchy) resealSet(ctx context.Context, set *caSet, o *Options, seal *sealer) (n int, err error) {
	_, _, err = records.Change(ctx, o.Authorities, setKey(set.number), func(stored *Hierarchy, _ uint64) (*Hierarchy, error) {
		if n = 0; stored == nil {
			return nil, nil
		}
		again := *stored
		again.CAs = slices.Clone(stored.CAs)
		for at, ca := range stored.CAs {
			i := h.find(set, ca.Name)
			if ca.Key == nil || i == nil || i.signer == nil || o.Signers[ca.Name] != nil || !seal.outdated(ca.Key) {
				continue
			}
			key, err := seal.seal(ctx, ca.Name, i.signer)
			if err != nil {
				return nil, err
			}
			again.CAs[at].Key = key
			n++
		}
		if n == 0 {
			return stored, nil
		}
		return &again, nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// find is the authority of a name, of those that were made together.
func (h *hierarchy) find(set *caSet, name string) *issuer {
	switch name {
	case rootName:
		return h.root
	case serverName:
		return set.server
	}
	return set.grants[Authority(name)]
}
