package servertls

import "errors"

// Settings name the bridge's server certificate.
type Settings struct {
	Cert string `yaml:"cert" doc:"PEM file with a server certificate and its chain, instead of one of the bridge's own authority"`
	Key  string `yaml:"key" doc:"PEM file with the server certificate's key"`
	Only bool   `yaml:"only" doc:"answer HTTP and WebSocket over TLS only; otherwise the same ports take both"`

	ACME ACMESettings `yaml:"acme"`
}

// Check reports faults of the settings.
func (c *Settings) Check() error {
	if (c.Cert == "") != (c.Key == "") {
		return errors.New("tls: cert and key go together")
	}
	if c.Cert != "" && len(c.ACME.Domains) > 0 {
		return errors.New("tls: a certificate in files and one by tls.acme are too many")
	}
	return c.ACME.check()
}
