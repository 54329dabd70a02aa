package token

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
)

// Bounds of a key set.
const (
	maxKeySet  = 256 << 10 // bytes
	maxKeys    = 100
	minRSABits = 2048
	maxRSABits = 8192
	minSecret  = 32 // bytes of a shared secret
)

// A key verifies signatures of one algorithm.
type key struct {
	id        string
	algorithm string
	public    any // []byte for HS256
}

// parseKeySet reads a JSON Web Key Set. Keys of other kinds, or for other
// uses, are left out; a shared secret has no place in one.
func parseKeySet(data []byte) ([]key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("not a key set: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys, which is too many", len(set.Keys))
	}
	var keys []key
	for _, text := range set.Keys {
		if k, ok := parseKey(text); ok {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no key that signs tokens")
	}
	return keys, nil
}

func parseKey(data []byte) (key, bool) {
	var k struct {
		Type      string   `json:"kty"`
		Use       string   `json:"use"`
		Uses      []string `json:"key_ops"`
		Algorithm string   `json:"alg"`
		ID        string   `json:"kid"`
		Curve     string   `json:"crv"`
		X         string   `json:"x"`
		Y         string   `json:"y"`
		N         string   `json:"n"`
		E         string   `json:"e"`
	}
	if json.Unmarshal(data, &k) != nil || k.Use != "" && k.Use != "sig" || k.Uses != nil && !slices.Contains(k.Uses, "verify") {
		return key{}, false
	}
	out := key{id: k.ID}
	switch {
	case k.Type == "EC" && k.Curve == "P-256":
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, fixed(k.X, 32), fixed(k.Y, 32)))
		if err != nil {
			return key{}, false
		}
		out.algorithm, out.public = ES256, public
	case k.Type == "OKP" && k.Curve == "Ed25519":
		x := fixed(k.X, ed25519.PublicKeySize)
		if x == nil {
			return key{}, false
		}
		out.algorithm, out.public = EdDSA, ed25519.PublicKey(x)
	case k.Type == "RSA":
		public := &rsa.PublicKey{N: new(big.Int).SetBytes(decode(k.N)), E: int(new(big.Int).SetBytes(fixedExponent(k.E)).Int64())}
		if bits := public.N.BitLen(); bits < minRSABits || bits > maxRSABits || public.E < 3 || public.E&1 == 0 {
			return key{}, false
		}
		out.algorithm, out.public = RS256, public
	default:
		return key{}, false
	}
	return out, k.Algorithm == "" || k.Algorithm == out.algorithm || k.Algorithm == "Ed25519" && out.algorithm == EdDSA
}

func decode(s string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}

// fixed decodes a value of exactly n bytes, or nil.
func fixed(s string, n int) []byte {
	if b := decode(s); len(b) == n {
		return b
	}
	return nil
}

// fixedExponent decodes a public exponent of at most 31 bits, or nil.
func fixedExponent(s string) []byte {
	if b := decode(s); len(b) <= 4 && (len(b) < 4 || b[0] < 0x80) {
		return b
	}
	return nil
}

// readPublicKey reads a public key, or a certificate's, from a PEM file.
func readPublicKey(path string) (key, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return key{}, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return key{}, fmt.Errorf("%s holds no PEM block", path)
	}
	var public any
	if block.Type == "CERTIFICATE" {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return key{}, fmt.Errorf("%s: %w", path, err)
		}
		public = cert.PublicKey
	} else if public, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		return key{}, fmt.Errorf("%s: %w", path, err)
	}
	algorithm := algorithmOf(public)
	if algorithm == "" {
		return key{}, fmt.Errorf("%s holds neither an Ed25519 key nor an ECDSA key on P-256", path)
	}
	return key{algorithm: algorithm, public: public}, nil
}

// algorithmOf is the algorithm that a key which is not RSA signs with, "" for
// none.
func algorithmOf(public any) string {
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return ES256
		}
	case ed25519.PublicKey:
		return EdDSA
	}
	return ""
}

// readSecret reads a shared secret. A line break at its end is an editor's.
func readSecret(path string) (key, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return key{}, err
	}
	data = bytes.TrimRight(data, "\r\n")
	if len(data) < minSecret {
		return key{}, fmt.Errorf("%s has %d bytes; a secret needs %d or more", path, len(data), minSecret)
	}
	return key{algorithm: HS256, public: data}, nil
}
