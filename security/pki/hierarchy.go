package pki

import (
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
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// The authorities that grant nothing to anybody.
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
	cert   *x509.Certificate
	signer crypto.Signer // nil while sealed
	locked error         // why
}

// sealed is the error for acts that need a key that is not here.
func (i *issuer) sealed() error {
	return protocol.Wrap(protocol.InvalidState, i.locked, "the authority's key is not open on this bridge")
}

// A hierarchy is all authorities.
type hierarchy struct {
	root   *issuer
	server *issuer
	grants map[Authority]*issuer
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
func openHierarchy(ctx context.Context, o *Options) (*hierarchy, error) {
	seal := newSealer(o)
	stored, revision, ok := o.Authorities.Get(hierarchyKey)
	if !ok {
		made, err := makeHierarchy(ctx, o, seal)
		if err != nil {
			return nil, fmt.Errorf("make the authorities: %w", err)
		}
		revision, err = o.Authorities.Create(ctx, hierarchyKey, made)
		switch {
		case protocol.CodeOf(err) == protocol.AlreadyExists:
			if made, revision, ok = o.Authorities.Get(hierarchyKey); !ok {
				return nil, err
			}
		case err != nil:
			return nil, err
		default:
			o.Log.Info("made the certificate authorities")
		}
		stored = made
	}
	h, err := loadHierarchy(stored, o, seal)
	if err != nil {
		return nil, err
	}
	_, err = h.reseal(ctx, stored, revision, o, seal)
	return h, err
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
	names := []string{serverName}
	for _, a := range Authorities() {
		names = append(names, string(a))
	}
	for _, name := range names {
		if _, err := makeCA(ctx, made, name, root, now, o, seal); err != nil {
			return nil, err
		}
	}
	return made, nil
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
		template.NotAfter = now.Add(intermediateLife)
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

// loadHierarchy opens the stored hierarchy. Without their keys the authorities
// still tell their own certificates from others'.
func loadHierarchy(stored *Hierarchy, o *Options, seal *sealer) (*hierarchy, error) {
	found := make(map[string]*issuer)
	for _, ca := range stored.CAs {
		i, err := loadCA(ca, o, seal)
		if err != nil {
			return nil, fmt.Errorf("authority %s: %w", ca.Name, err)
		}
		found[ca.Name] = i
	}
	h := &hierarchy{root: found[rootName], server: found[serverName], grants: make(map[Authority]*issuer)}
	for _, a := range Authorities() {
		h.grants[a] = found[string(a)]
	}
	for name, i := range found {
		if name == rootName || h.root == nil {
			continue
		}
		if err := i.cert.CheckSignatureFrom(h.root.cert); err != nil {
			return nil, fmt.Errorf("authority %s is not under the root: %w", name, err)
		}
	}
	if h.root == nil || h.server == nil || h.grants[Operator] == nil || h.grants[AppStore] == nil || h.grants[Enterprise] == nil {
		return nil, errors.New("the stored authorities are not complete")
	}
	return h, nil
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
		i.locked = errors.New("its key is held elsewhere")
	default:
		i.signer, i.locked = seal.open(ca.Name, ca.Key, cert.PublicKey)
	}
	if i.locked != nil {
		o.Log.Warn("an authority cannot issue certificates", "authority", ca.Name, "reason", i.locked)
	}
	return i, nil
}

// reseal stores the keys sealed the way that is configured now, when somebody
// has begun to use a passphrase or the key file has its next version, and counts them.
func (h *hierarchy) reseal(ctx context.Context, stored *Hierarchy, revision uint64, o *Options, seal *sealer) (n int, err error) {
	again := *stored
	again.CAs = nil
	for _, ca := range stored.CAs {
		i := h.find(ca.Name)
		if ca.Key != nil && i != nil && i.signer != nil && o.Signers[ca.Name] == nil && seal.outdated(ca.Key) {
			if ca.Key, err = seal.seal(ctx, ca.Name, i.signer); err != nil {
				return 0, err
			}
			n++
		}
		again.CAs = append(again.CAs, ca)
	}
	if n == 0 {
		return 0, nil
	}
	_, err = o.Authorities.Update(ctx, hierarchyKey, &again, revision)
	if protocol.CodeOf(err) == protocol.RevisionConflict {
		return 0, nil // another bridge did the same
	}
	if err == nil {
		o.Log.Info("sealed the authorities' keys anew", "by", seal.method())
	}
	return n, err
}

// find is the authority of a name.
func (h *hierarchy) find(name string) *issuer {
	switch name {
	case rootName:
		return h.root
	case serverName:
		return h.server
	}
	return h.grants[Authority(name)]
}
