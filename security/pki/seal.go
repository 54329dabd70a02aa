package pki

import (
	"cmp"
	"context"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/crypto/scrypt"

	"github.com/aibridge/aibridge/security/masterkey"
)

// KeyFile is the file in the data folder that seals the authorities' keys when
// there is no passphrase. Bridges that share their state share a copy of it.
const KeyFile = "ca.key"

const keyFileBytes = masterkey.Size

// A SealedKey is an authority's private key (PKCS #8), encrypted with
// AES-256-GCM under a key derived from a passphrase or kept in a file.
type SealedKey struct {
	Method string `json:"method"` // scrypt or file
	Salt   []byte `json:"salt,omitempty"`
	// Version is the id of the key file's version; "" for the first, and for a passphrase.
	Version string `json:"version,omitempty"`
	LogN    int    `json:"log_n,omitempty"` // scrypt's cost
	R       int    `json:"r,omitempty"`
	P       int    `json:"p,omitempty"`
	Nonce   []byte `json:"nonce"`
	Box     []byte `json:"box"`
}

const (
	byPassphrase = "scrypt"
	byFile       = "file"

	// scrypt takes 32 MiB and some 60 ms, once at a start.
	scryptLogN, scryptR, scryptP = 15, 8, 1
	maxLogN, maxR, maxP          = 20, 32, 4
	saltBytes                    = 16
)

// errOtherKey is the error for a key that was sealed with another passphrase or key file.
var errOtherKey = errors.New("the passphrase or key file is not the one the authorities' keys were sealed with")

// A sealer seals and opens the authorities' keys.
type sealer struct {
	file       *masterkey.File
	passphrase []byte
	logN       int // of sealed keys

	mu      sync.Mutex
	derived map[string][]byte // by salt and cost: deriving is slow on purpose
	salt    []byte            // of keys sealed by this process
}

func newSealer(o *Options) *sealer {
	return &sealer{file: o.KeyFile, passphrase: o.Passphrase, logN: cmp.Or(o.scryptLogN, scryptLogN), derived: make(map[string][]byte)}
}

// method is the way keys are to be sealed.
func (s *sealer) method() string {
	if len(s.passphrase) > 0 {
		return byPassphrase
	}
	return byFile
}

// outdated reports whether a key is sealed in another way than keys are to be.
func (s *sealer) outdated(k *SealedKey) bool {
	if k.Method != s.method() {
		return true
	}
	if k.Method != byFile || !s.file.Rotated() {
		return false
	}
	active, _, err := s.file.Active()
	return err == nil && k.Version != active
}

// seal seals a private key. The name and the public key go into the seal, so
// that no authority's key can be put in place of another's.
func (s *sealer) seal(ctx context.Context, name string, key crypto.Signer) (*SealedKey, error) {
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	defer clear(plain)
	k := &SealedKey{Method: s.method(), Nonce: make([]byte, 12)}
	_, _ = rand.Read(k.Nonce) // never fails
	if k.Method == byPassphrase {
		s.mu.Lock()
		if s.salt == nil {
			s.salt = make([]byte, saltBytes)
			_, _ = rand.Read(s.salt)
		}
		k.Salt = s.salt
		s.mu.Unlock()
		k.LogN, k.R, k.P = s.logN, scryptR, scryptP
	} else if k.Version, err = s.version(ctx); err != nil {
		return nil, err
	}
	box, label, err := s.box(k, name, key.Public())
	if err != nil {
		return nil, err
	}
	k.Box = box.Seal(nil, k.Nonce, plain, label)
	return k, nil
}

// open opens a sealed key whose public half is known.
func (s *sealer) open(name string, k *SealedKey, public crypto.PublicKey) (crypto.Signer, error) {
	box, label, err := s.box(k, name, public)
	if err != nil {
		return nil, err
	}
	if len(k.Nonce) != box.NonceSize() {
		return nil, errors.New("the sealed key is damaged")
	}
	plain, err := box.Open(nil, k.Nonce, k.Box, label)
	if err != nil {
		return nil, errOtherKey
	}
	defer clear(plain)
	key, err := x509.ParsePKCS8PrivateKey(plain)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok || !equalKeys(signer.Public(), public) {
		return nil, errors.New("the sealed key does not belong to its certificate")
	}
	return signer, nil
}

func (s *sealer) box(k *SealedKey, name string, public crypto.PublicKey) (cipher.AEAD, []byte, error) {
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, nil, err
	}
	label := append([]byte("aibridge ca key\x00"+name+"\x00"), spki...)
	secret, err := s.secret(k)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, nil, err
	}
	box, err := cipher.NewGCM(block)
	return box, label, err
}

// secret is the key that a sealed key was or is to be sealed under.
func (s *sealer) secret(k *SealedKey) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch k.Method {
	case byFile:
		return s.inFile(k.Version)
	case byPassphrase:
		if len(s.passphrase) == 0 {
			return nil, errors.New("a passphrase is needed to open the authorities' keys")
		}
		if k.LogN < 1 || k.LogN > maxLogN || k.R < 1 || k.R > maxR || k.P < 1 || k.P > maxP {
			return nil, errors.New("the sealed key asks for an unreasonable cost")
		}
		at := fmt.Sprintf("%x/%d/%d/%d", k.Salt, k.LogN, k.R, k.P)
		if s.derived[at] == nil {
			derived, err := scrypt.Key(s.passphrase, k.Salt, 1<<k.LogN, k.R, k.P, keyFileBytes)
			if err != nil {
				return nil, err
			}
			s.derived[at] = derived
		}
		return s.derived[at], nil
	}
	return nil, fmt.Errorf("keys sealed by %q cannot be opened", k.Method)
}

// inFile is a version of the key file by its id.
func (s *sealer) inFile(version string) ([]byte, error) {
	if !s.file.There() {
		return nil, fmt.Errorf("%s, which opens the authorities' keys, is not in the data folder", KeyFile)
	}
	if version == "" {
		version = s.file.First()
	}
	if key := s.file.Key(version); key != nil {
		return key, nil
	}
	return nil, errOtherKey
}

// version is the version of the key file that seals, "" for the first. The file is
// made unless it is there.
func (s *sealer) version(ctx context.Context) (id string, err error) {
	if !s.file.There() {
		if err := s.file.Make(ctx); err != nil {
			return "", err
		}
	}
	if !s.file.Rotated() {
		return "", nil
	}
	id, _, err = s.file.Active()
	return id, err
}

// fingerprint tells certificates apart.
func fingerprint(der []byte) [sha256.Size]byte { return sha256.Sum256(der) }

func equalKeys(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}
