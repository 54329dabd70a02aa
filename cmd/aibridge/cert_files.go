package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

// A keyMaker makes a key in a folder and the request to sign it.
type keyMaker struct{ out, kind string }

func (k *keyMaker) addFlags(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&k.out, "out", "", "folder for "+what)
	cmd.Flags().StringVar(&k.kind, "key-type", "ecdsa", "key to make: ecdsa (P-256) or ed25519")
}

// make makes a key in the folder, where none may be yet.
func (k *keyMaker) make() (crypto.Signer, error) {
	if k.out == "" {
		return nil, usageError{errors.New("--out is needed: a folder for the key")}
	}
	var key crypto.Signer
	var err error
	switch k.kind {
	case "ecdsa":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		return nil, usageError{fmt.Errorf("--key-type %s is neither ecdsa nor ed25519", k.kind)}
	}
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(k.out, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(k.out, keyFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s holds a key already; choose another folder", k.out)
	}
	if err != nil {
		return nil, err
	}
	err = pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return key, errors.Join(err, f.Sync(), f.Close())
}

// discard removes a key that got no certificate.
func (k *keyMaker) discard() { _ = os.Remove(filepath.Join(k.out, keyFile)) }

func signingRequest(key crypto.Signer, name string) (string, error) {
	template := &x509.CertificateRequest{}
	if name != "" {
		template.Subject = pkix.Name{CommonName: name}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), err
}

// An issuedCertificate is the bridge's answer.
type issuedCertificate struct {
	RequestID string          `json:"request_id"`
	Serial    protocol.Serial `json:"serial"`
	Chain     []string        `json:"chain"`
	ExpiresAt int64           `json:"expires_at"`
}

// check makes sure that the issued certificate is for the requested key.
func (i *issuedCertificate) check(key crypto.Signer) error {
	if len(i.Chain) != 3 {
		return fmt.Errorf("the bridge answered with a chain of %d certificates", len(i.Chain))
	}
	block, _ := pem.Decode([]byte(i.Chain[0]))
	if block == nil {
		return errors.New("the bridge answered with something that is no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(cert.PublicKey) {
		return errors.New("the bridge answered with a certificate for another key")
	}
	return nil
}

// write puts the certificate and the root into a folder.
func (i *issuedCertificate) write(dir string) error {
	chain := strings.Join(i.Chain[:len(i.Chain)-1], "")
	return errors.Join(
		os.WriteFile(filepath.Join(dir, certFile), []byte(chain), 0o644),                 //nolint:gosec // certificates are no secrets
		os.WriteFile(filepath.Join(dir, caFile), []byte(i.Chain[len(i.Chain)-1]), 0o644), //nolint:gosec // the same
	)
}

// finish checks and writes the issued certificate, prints the serial, and the rest
// to standard error.
func (i *issuedCertificate) finish(cmd *cobra.Command, dir string, key crypto.Signer) error {
	if err := i.check(key); err != nil {
		return err
	}
	if err := i.write(dir); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s, %s and %s to %s, good until %s\n", certFile, keyFile, caFile, dir,
		time.UnixMilli(i.ExpiresAt).Format(time.DateTime))
	_, err := fmt.Fprintln(cmd.OutOrStdout(), i.Serial)
	return err
}

func readKey(dir string) (crypto.Signer, error) {
	if dir == "" {
		return nil, usageError{errors.New("--out is needed: the folder with the key")}
	}
	text, err := os.ReadFile(filepath.Join(dir, keyFile))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no key in PEM", filepath.Join(dir, keyFile))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key in %s cannot sign", dir)
	}
	return key, nil
}
