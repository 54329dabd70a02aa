package app

import (
	"context"
	"fmt"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/doors/console"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
)

// newConsole makes the page for people.
func newConsole(s *state, d *domains, set *commands.Set) (*console.Door, error) {
	issuers, err := signInPages(d.identities)
	if err != nil {
		return nil, err
	}
	return console.New(console.Options{
		SignIn:   d.identities.authenticator.SignIn,
		Issuers:  issuers,
		Identify: d.identities.authenticator.Unprompted,
		Grants:   s.credentials,
		May:      mayAtAll(s.authorizer, set),
		Bridge: console.Bridge{
			ID: s.config.ID, Version: s.version, Protocol: protocol.Version, Root: s.config.Root, Dev: s.config.Dev,
			MQTT: s.addresses.MQTT, MQTTS: s.addresses.MQTTS, HTTP: s.addresses.HTTP, WS: s.addresses.WS,
		},
		Log: s.log,
	})
}

// signInPages are the issuers where people sign in to the page.
func signInPages(i *identities) ([]console.Issuer, error) {
	pages, err := i.verifier.SignInPages()
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	issuers := make([]console.Issuer, len(pages))
	for n, page := range pages {
		issuers[n] = i.authenticator.SignInPage(page)
	}
	return issuers, nil
}

// mayAtAll lists the actions that policy permits a principal on no resource in
// particular. It is a hint for the console's offers: each call is decided by
// itself.
func mayAtAll(authorizer security.Authorizer, set *commands.Set) func(context.Context, *protocol.Principal) []string {
	return func(ctx context.Context, who *protocol.Principal) []string {
		asked := make(map[string]bool)
		var may []string
		for c := range set.All() {
			if asked[c.Action] {
				continue
			}
			asked[c.Action] = true
			if authorizer.Authorize(ctx, who, c.Action, commands.Resource{Type: c.Family(), Space: who.Home()}) == nil {
				may = append(may, c.Action)
			}
		}
		return may
	}
}
