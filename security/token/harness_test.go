package token

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

const (
	bridge = "aibridge"
	secret = "0123456789abcdef0123456789abcdef"
)

// keys for all tests: RSA keys take long to make.
var (
	rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		return k
	})
	ecKey = sync.OnceValue(newEC)
)

func newEC() *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return k
}

func newEd(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// good are the claims of a token that is all right.
func good(change ...func(jwt.MapClaims)) jwt.MapClaims {
	now := time.Now()
	c := jwt.MapClaims{"iss": "issuer", "sub": "lamp-1", "aud": bridge, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	for _, f := range change {
		f(c)
	}
	return c
}

func with(name string, value any) func(jwt.MapClaims) {
	return func(c jwt.MapClaims) { c[name] = value }
}

func without(name string) func(jwt.MapClaims) {
	return func(c jwt.MapClaims) { delete(c, name) }
}

// sign makes a token.
func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.Claims, header ...string) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	for i := 0; i < len(header); i += 2 {
		token.Header[header[i]] = header[i+1]
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// raw makes a token of any header and claims, with a signature by HS256.
func raw(header, claims string) string {
	b64 := base64.RawURLEncoding.EncodeToString
	text := b64([]byte(header)) + "." + b64([]byte(claims))
	signature, _ := jwt.SigningMethodHS256.Sign(text, []byte(secret))
	return text + "." + b64(signature)
}

func file(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func publicPEM(t testing.TB, public crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// jwk is a public key as a member of a key set.
func jwk(t testing.TB, id string, public any) map[string]string {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": b64(point[1:33]), "y": b64(point[33:])}
	case ed25519.PublicKey:
		return map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": id, "x": b64(k)}
	case *rsa.PublicKey:
		return map[string]string{"kty": "RSA", "kid": id, "n": b64(k.N.Bytes()), "e": b64(big.NewInt(int64(k.E)).Bytes())}
	}
	t.Fatalf("a %T is no public key", public)
	return nil
}

func keySetOf(t testing.TB, keys ...map[string]string) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func verifier(t testing.TB, issuers ...Issuer) *Verifier {
	t.Helper()
	v, err := New(Options{BridgeID: bridge, Issuers: issuers})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func sharedSecret(t testing.TB) Issuer {
	return Issuer{Issuer: "issuer", Secret: file(t, []byte(secret+"\n"))}
}

// certificates are those of an authority that is just a map.
type certificates struct {
	byThumbprint map[[32]byte]*x509.Certificate
	gone         error // what Identify says of all of them
}

func (c *certificates) ByThumbprint(sum [32]byte) (*x509.Certificate, bool) {
	cert, ok := c.byThumbprint[sum]
	return cert, ok
}

func (c *certificates) Identify(cert *x509.Certificate) (*protocol.Principal, error) {
	if c.gone != nil {
		return nil, c.gone
	}
	return &protocol.Principal{
		Kind: protocol.KindAgent, ID: cert.Subject.CommonName, Method: protocol.MethodCertificate,
		CertSerial: "00000000000000A1", Expires: cert.NotAfter, Credential: "00000000000000A1",
	}, nil
}

// issue makes a certificate that c knows.
func (c *certificates) issue(t testing.TB, name string, key crypto.Signer) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(int64(len(c.byThumbprint) + 1)), NotAfter: time.Now().Add(24 * time.Hour)}
	template.Subject.CommonName = name
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if c.byThumbprint == nil {
		c.byThumbprint = make(map[[32]byte]*x509.Certificate)
	}
	c.byThumbprint[sha256.Sum256(der)] = cert
	return cert
}

func thumbprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func signerOf(key any) crypto.Signer { return key.(crypto.Signer) }

func methodOf(key any) jwt.SigningMethod {
	if _, ok := key.(*ecdsa.PrivateKey); ok {
		return jwt.SigningMethodES256
	}
	return jwt.SigningMethodEdDSA
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func fetcher(f func() ([]key, error)) func(context.Context) ([]key, error) {
	return func(context.Context) ([]key, error) { return f() }
}

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}
