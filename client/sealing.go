package client

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A SealKey is the private key of a skill, that params are sealed to. Agents
// that provide the same skill share it.
type SealKey struct {
	ID      string    // unique among the skill's keys
	Expires time.Time // zero for never

	private *ecdh.PrivateKey
}

// NewSealKey makes a key.
func NewSealKey() (*SealKey, error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return sealKeyOf(private), nil
}

// ParseSealKey reads what [SealKey.Bytes] returned.
func ParseSealKey(secret []byte) (*SealKey, error) {
	private, err := ecdh.X25519().NewPrivateKey(secret)
	if err != nil {
		return nil, errors.New("a key to unseal with has 32 bytes")
	}
	return sealKeyOf(private), nil
}

func sealKeyOf(private *ecdh.PrivateKey) *SealKey {
	sum := sha256.Sum256(private.PublicKey().Bytes())
	return &SealKey{ID: hex.EncodeToString(sum[:8]), private: private}
}

// Bytes is the secret key, to be stored where no other user can read it.
func (k *SealKey) Bytes() []byte { return k.private.Bytes() }

// Public is the public key, for callers that are to know it beforehand.
func (k *SealKey) Public() []byte { return k.private.PublicKey().Bytes() }

// encryptionKey is a public key as a skill publishes it.
type encryptionKey struct {
	ID        string   `json:"kid"`
	Suite     string   `json:"suite"`
	Key       []byte   `json:"key"`
	Expires   int64    `json:"expires,omitempty"`
	Chain     [][]byte `json:"chain,omitempty"`
	Signature []byte   `json:"signature,omitempty"`
}

const (
	keyDomain     = "aibridge encryption key 1"
	payloadDomain = "aibridge sealed payload 1"
)

// signed returns the text that a certificate's key signs to vouch for an
// encryption key.
func (k *encryptionKey) signed(skill protocol.SkillID) []byte {
	return framed(keyDomain, string(skill), k.ID, k.Suite, number(uint64(k.Expires)), string(k.Key))
}

// framed joins texts so that no two lists of them look the same: each is
// preceded by its length, four bytes, big-endian.
func framed(parts ...string) []byte {
	var b []byte
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return b
}

func number(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

// publish is the public key, signed by a certificate if there is one.
func (k *SealKey) publish(skill protocol.SkillID, cert *tls.Certificate) (encryptionKey, error) {
	p := encryptionKey{ID: k.ID, Suite: protocol.SuiteX25519, Key: k.Public()}
	if !k.Expires.IsZero() {
		p.Expires = k.Expires.UnixMilli()
	}
	if cert == nil {
		return p, nil
	}
	signer, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		return p, errors.New("the certificate has no key to sign with")
	}
	message, hash := p.signed(skill), crypto.Hash(0)
	if _, ok := signer.Public().(ed25519.PublicKey); !ok {
		sum := sha256.Sum256(message)
		message, hash = sum[:], crypto.SHA256
	}
	signature, err := signer.Sign(rand.Reader, message, hash)
	p.Chain, p.Signature = cert.Certificate[:min(len(cert.Certificate), 3)], signature
	return p, err
}

// verify checks that a certificate of the skill vouches for the key.
func (k *encryptionKey) verify(skill protocol.SkillID, roots *x509.CertPool, now time.Time) error {
	if len(k.Chain) == 0 {
		return errors.New("no certificate vouches for it")
	}
	leaf, err := x509.ParseCertificate(k.Chain[0])
	if err != nil {
		return errors.New("its certificate cannot be read")
	}
	between := x509.NewCertPool()
	for _, der := range k.Chain[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(cert)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return fmt.Errorf("its certificate is not trusted: %w", err)
	}
	if !names(leaf, skill) {
		return errors.New("its certificate is not the skill's")
	}
	message := k.signed(skill)
	sum := sha256.Sum256(message)
	switch public := leaf.PublicKey.(type) {
	case *ecdsa.PublicKey:
		if ecdsa.VerifyASN1(public, sum[:], k.Signature) {
			return nil
		}
	case ed25519.PublicKey:
		if ed25519.Verify(public, message, k.Signature) {
			return nil
		}
	}
	return errors.New("the certificate's signature is wrong")
}

// names reports whether a certificate is the skill's: it has the URI
// aibridge:skill/{id}.
func names(cert *x509.Certificate, skill protocol.SkillID) bool {
	want := "skill/" + url.PathEscape(string(skill))
	for _, u := range cert.URIs {
		if u.Scheme == "aibridge" && u.Opaque == want {
			return true
		}
	}
	return false
}

// Directions, so that nothing sealed one way passes for something the other.
const (
	toSkill   = "request"
	fromSkill = "response"
	onTheWay  = "event"
)

// A sealedCall holds the data that all sealed payloads of one call share.
type sealedCall struct {
	skill      protocol.SkillID
	capability protocol.CapabilityID
	id, kid    string
	at         int64
	reply      []byte
	ciphertext []byte // of the request, once there is one
}

// info returns the context that a payload is bound to, besides its key.
func (l *sealedCall) info(direction string, seq uint64) []byte {
	request := ""
	if direction != toSkill { // an answer belongs to this very request
		sum := sha256.Sum256(l.ciphertext)
		request = string(sum[:])
	}
	return framed(payloadDomain, direction, string(l.skill), string(l.capability), l.id, number(uint64(l.at)), l.kid, string(l.reply), request, number(seq))
}

// seal seals a payload to a public key.
func (l *sealedCall) seal(to []byte, direction string, seq uint64, payload []byte) (*protocol.Sealed, error) {
	point, err := ecdh.X25519().NewPublicKey(to)
	if err != nil {
		return nil, err
	}
	key, err := hpke.NewDHKEMPublicKey(point)
	if err != nil {
		return nil, err
	}
	out, err := hpke.Seal(key, hpke.HKDFSHA256(), hpke.AES256GCM(), l.info(direction, seq), payload)
	if err != nil {
		return nil, err
	}
	return &protocol.Sealed{Version: 1, Suite: protocol.SuiteX25519, Seq: seq,
		Enc: out[:protocol.SealedKeySize], Ciphertext: out[protocol.SealedKeySize:]}, nil
}

var errUnsealed = protocol.Errorf(protocol.ProofFailed, "the sealed payload does not open: it was changed, is for something else or for another key")

// open opens a payload with a private key.
func (l *sealedCall) open(with *ecdh.PrivateKey, direction string, s *protocol.Sealed) ([]byte, error) {
	key, err := hpke.NewDHKEMPrivateKey(with)
	if err != nil {
		return nil, err
	}
	payload, err := hpke.Open(key, hpke.HKDFSHA256(), hpke.AES256GCM(), l.info(direction, s.Seq), append(s.Enc[:len(s.Enc):len(s.Enc)], s.Ciphertext...))
	if err != nil {
		return nil, errUnsealed
	}
	return payload, nil
}

// fingerprint is the form in which a key is shown to people.
func fingerprint(key []byte) string { return base64.StdEncoding.EncodeToString(key) }
