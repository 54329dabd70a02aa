package app

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"path/filepath"

	"github.com/aibridge/aibridge/security/keyfile"
)

// A fileSealer encrypts credentials of remote VFSs with a key in the data
// folder: AES-256-GCM, with what the credential is for as additional data.
type fileSealer struct{ aead cipher.AEAD }

// openFileSealer reads the key, or makes one.
func openFileSealer(data string) (*fileSealer, error) {
	key, err := keyfile.Secret(filepath.Join(data, "vfs.key"), 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &fileSealer{aead}, err
}

// Seal implements [vfs.Sealer].
func (s *fileSealer) Seal(plain []byte, purpose string) ([]byte, error) {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return s.aead.Seal(nonce, nonce, plain, []byte(purpose)), nil
}

// Open implements [vfs.Sealer].
func (s *fileSealer) Open(sealed []byte, purpose string) ([]byte, error) {
	n := s.aead.NonceSize()
	if len(sealed) < n {
		return nil, errors.New("a sealed credential is too short")
	}
	return s.aead.Open(nil, sealed[:n], sealed[n:], []byte(purpose))
}
