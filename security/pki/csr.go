package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

const (
	maxCSR     = 16 << 10 // characters
	minRSABits = 2048
	maxRSABits = 4096
)

// parseCSR reads a certificate signing request in PEM and checks that it was
// signed with its own key, one of a kind we take.
func parseCSR(text string) (*x509.CertificateRequest, error) {
	bad := func(format string, args ...any) error {
		return protocol.InvalidParam("csr", fmt.Sprintf(format, args...))
	}
	if len(text) > maxCSR {
		return nil, bad("is too long")
	}
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil || block.Type != "CERTIFICATE REQUEST" && block.Type != "NEW CERTIFICATE REQUEST":
		return nil, bad("is not a certificate signing request in PEM")
	case strings.TrimSpace(string(rest)) != "":
		return nil, bad("holds more than one certificate signing request")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, bad("cannot be read")
	}
	if reason := checkKey(csr.PublicKey); reason != "" {
		return nil, bad("%s", reason)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, bad("is not signed with its own key")
	}
	return csr, nil
}

// checkKey is the reason why a public key is refused, "" for a good one.
func checkKey(public any) string {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() || key.Curve == elliptic.P384() {
			return ""
		}
	case ed25519.PublicKey:
		return ""
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Sprintf("has an RSA key of %d bits, not %d to %d", bits, minRSABits, maxRSABits)
		}
		return ""
	}
	return "has a key of a kind that is not taken: P-256, P-384, Ed25519 and RSA are"
}

// checkNames refuses a request that names another party than the holder of the scope: it
// must ask for the names that it gets. Names may be left out.
func checkNames(csr *x509.CertificateRequest, scope *Scope) error {
	refuse := func(what, name string) error {
		return protocol.Errorf(protocol.OutsideScope, "the csr names %s %q, which is not who the certificate is for", what, name).
			With("param_name", "csr").With("reason", "names somebody else")
	}
	for _, n := range csr.Subject.Names {
		name, _ := n.Value.(string)
		if n.Type.Equal(commonName()) && name != scope.ID && name != string(scope.Skill) {
			return refuse("the common name", name)
		}
	}
	for _, uri := range csr.URIs {
		if !slices.ContainsFunc(scope.names(), func(name string) bool { return name == uri.String() }) {
			return refuse("the URI", uri.String())
		}
	}
	switch {
	case len(csr.DNSNames) > 0:
		return refuse("the host", csr.DNSNames[0])
	case len(csr.EmailAddresses) > 0:
		return refuse("the address", csr.EmailAddresses[0])
	case len(csr.IPAddresses) > 0:
		return refuse("the host", csr.IPAddresses[0].String())
	}
	return nil
}

// names are the URIs of the holder as text.
func (s *Scope) names() []string {
	names := make([]string, 0, 2)
	for _, uri := range s.uris() {
		names = append(names, uri.String())
	}
	return names
}

func commonName() asn1.ObjectIdentifier { return asn1.ObjectIdentifier{2, 5, 4, 3} }
