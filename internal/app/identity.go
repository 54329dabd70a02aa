package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/token"
)

// off is the address of a listener that is not wanted.
const off = "off"

// mqttsAddress is where MQTT over TLS is served, off for nowhere: what is
// configured, or beside MQTT.
func (c *Config) mqttsAddress() string {
	if c.MQTTS != "" {
		return c.MQTTS
	}
	host, port, err := net.SplitHostPort(c.MQTT)
	switch {
	case c.MQTT == off:
		return "127.0.0.1:8883"
	case err != nil:
		return off // the address of MQTT is wrong, which is said elsewhere
	case port == "1883":
		return net.JoinHostPort(host, "8883")
	}
	return net.JoinHostPort(host, "0")
}

// checkTLS says what is wrong with the settings of TLS.
func (c *Config) checkTLS() error {
	if c.MQTT == off && c.mqttsAddress() == off {
		return errors.New("mqtt and mqtts: one of them must be on")
	}
	return c.TLS.Check()
}

// openIdentity readies everything that says who somebody is. The authorities
// are open.
func (a *App) openIdentity(ctx context.Context, keys *store.Table[security.Key], uses *store.Table[security.KeyUse], revocations *store.Table[security.Revocation]) error {
	ring, err := security.OpenKeyring(a.config.Data, keys)
	if err != nil {
		return err
	}
	a.keyring = ring
	if !a.config.Dev {
		made, err := ring.EnsureAdministrator(ctx, a.config.Data, time.Now())
		if err != nil {
			return err
		}
		if made {
			a.log.Info("made the administrator's key", "file", AdminKeyFile)
		}
	}
	authenticating := security.AuthenticatorOptions{
		Keys: ring, Certificates: a.pki, Dev: a.config.Dev, Settled: newLoginRecord(a.audit).settled, Log: a.log,
	}
	verifier, err := token.New(token.Options{BridgeID: a.config.ID, Issuers: a.config.Tokens.Issuers, Certificates: a.pki, Log: a.log})
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	authenticating.Tokens = verifier
	a.openRevocations(revocations, verifier)
	a.credentials.Use(security.Sources{Keys: ring, Tokens: verifier, Revocations: a.revocations, Certificates: a.pki, Dev: a.config.Dev})
	authenticating.Check = a.credentials.Check
	a.run("tokens", verifier.Run)
	a.authenticator = security.NewAuthenticator(authenticating)
	a.keys = security.NewKeyService(security.KeyOptions{Ring: ring, Uses: uses, BridgeID: a.config.ID, Clash: a.parties.Clash, Names: a.policy.engine, DataKeys: a.seals, Reseal: a.files.Reseal, Changed: recordKey(a.audit), Log: a.log})
	a.run("keys", a.keys.Run)
	return nil
}
