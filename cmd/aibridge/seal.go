package main

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/aibridge/aibridge/client"
)

// A seal holds the flags for sealing a call to its skill.
type seal struct {
	on         bool
	key, roots string
}

func (s *seal) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&s.on, "seal", false, "seal params to the skill, so that nobody in between can read them; the bridge is trusted to name the right key")
	fs.StringVar(&s.key, "seal-key", "", "the same, with the skill's public key (base64), so that the bridge need not be trusted")
	fs.StringVar(&s.roots, "seal-roots", "", "the same, with a file of authorities (PEM) that must vouch for the skill's key")
}

// options are the call options that the flags ask for.
func (s *seal) options() ([]client.CallOption, error) {
	var o client.SealOptions
	switch {
	case s.key != "" && s.roots != "":
		return nil, usageError{errors.New("--seal-key and --seal-roots exclude each other")}
	case s.key != "":
		key, err := base64.StdEncoding.DecodeString(s.key)
		if err != nil {
			return nil, usageError{fmt.Errorf("--seal-key: %w", err)}
		}
		o.Key = key
	case s.roots != "":
		pem, err := os.ReadFile(s.roots)
		if err != nil {
			return nil, err
		}
		o.Roots = x509.NewCertPool()
		if !o.Roots.AppendCertsFromPEM(pem) {
			return nil, usageError{fmt.Errorf("--seal-roots: %s holds no certificate", s.roots)}
		}
	case s.on:
		o.TrustBridge = true
	default:
		return nil, nil
	}
	return []client.CallOption{client.Sealed(o)}, nil
}
