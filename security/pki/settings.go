package pki

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
)

// passphraseVariable may hold the passphrase of the authorities' keys. It is
// no setting: settings are printed.
const passphraseVariable = "AIBRIDGE_PKI_PASSPHRASE"

// Settings say how the bridge's certificate authorities work.
type Settings struct {
	KeyType        string   `yaml:"key_type" doc:"keys of the certificate authorities when they are made: ecdsa or ed25519"`
	PassphraseFile string   `yaml:"passphrase_file" doc:"file with the passphrase that seals the authorities' keys; otherwise AIBRIDGE_PKI_PASSPHRASE, then a key file in the data folder"`
	Names          []string `yaml:"names" doc:"host names and addresses of the bridge's own server certificate, besides loopback's and hosts"`
	PublicURL      string   `yaml:"public_url" doc:"address at which clients find the HTTP API; with it certificates say where their revocation list is"`
}

// Check reports faults of the settings, by their names.
func (c *Settings) Check() error {
	var errs []error
	switch KeyType(c.KeyType) {
	case ECDSA, Ed25519, "":
	default:
		errs = append(errs, fmt.Errorf("pki.key_type: %q is neither ecdsa nor ed25519", c.KeyType))
	}
	if u, err := url.Parse(c.PublicURL); c.PublicURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		errs = append(errs, fmt.Errorf("pki.public_url: %q is no http or https URL", c.PublicURL))
	}
	return errors.Join(errs...)
}

// ReadPassphrase reads the passphrase that seals the authorities' keys from its
// file or the environment. It is empty if a key file seals them.
func (c *Settings) ReadPassphrase() ([]byte, error) {
	if c.PassphraseFile == "" {
		return []byte(os.Getenv(passphraseVariable)), nil
	}
	data, err := os.ReadFile(c.PassphraseFile)
	if err != nil {
		return nil, fmt.Errorf("pki.passphrase_file: %w", err)
	}
	if data = bytes.TrimRight(data, "\r\n"); len(data) == 0 {
		return nil, errors.New("pki.passphrase_file: the file is empty")
	}
	return data, nil
}
