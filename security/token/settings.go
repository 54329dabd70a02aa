package token

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
)

// Settings name the issuers of accepted tokens. Issuers are set in the file only.
type Settings struct {
	Issuers []Issuer `yaml:"issuers"`
}

// OIDC lists the issuers whose tokens people get by OpenID Connect.
func (c *Settings) OIDC() []string {
	var urls []string
	for _, issuer := range c.Issuers {
		if issuer.OIDC {
			urls = append(urls, issuer.Issuer)
		}
	}
	return urls
}

// CheckRoles refuses roles of issuers that are misspelt, and warns of those that no
// policy names: the policy about one may have been removed, which must keep no
// bridge from starting. known returns for an unknown role the one that was probably
// meant, "" for none. The policies are loaded.
func (c *Settings) CheckRoles(known func(role string) (meant string, known bool), log *slog.Logger) error {
	for _, issuer := range c.Issuers {
		given := append(slices.Clone(issuer.DefaultRoles), slices.Sorted(maps.Values(issuer.Roles))...)
		for _, role := range slices.Compact(given) {
			switch meant, ok := known(role); {
			case ok:
			case meant != "":
				return fmt.Errorf("tokens: issuer %q: there is no role %q: did you mean %q?", issuer.Issuer, role, meant)
			default:
				log.Warn("an issuer of tokens gives a role that no policy speaks of", "issuer", issuer.Issuer, "role", role)
			}
		}
	}
	return nil
}
