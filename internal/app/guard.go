package app

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/authz"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/audit/events"
	"github.com/aibridge/aibridge/security/masterkey"
	"github.com/aibridge/aibridge/security/pki"
	"github.com/aibridge/aibridge/security/policy"
	"github.com/aibridge/aibridge/security/seal"
)

// The guard decides which acts are permitted, and keeps record of them.
type guard struct {
	seals       *seal.Store
	sealTables  seal.Tables     // of seals
	caKey       *masterkey.File // seals the keys of the authorities
	audit       *audit.Trail
	chains      *storage.Chains // of all bridges that share the state, nil if none do
	events      *events.Publisher
	credentials *security.Credentials // asked about once the tables are loaded
	policies    *policy.Engine
	authorizer  security.Authorizer
	judge       authz.Judge
}

// openGuard opens the audit trail and makes the policy engine and its guards. It
// comes before the domains, whose facts it asks for later.
func openGuard(ctx context.Context, b *base, s *storage.Storage, clients *mqttdoor.Clients, later *promises) (*guard, error) {
	tables, holder := storage.SealTables(s.Store), ""
	if b.config.Shared() {
		holder = b.config.ID
	}
	seals, err := seal.Open(b.config.Data, holder, tables, b.log)
	if err != nil {
		return nil, err
	}
	caKey, err := masterkey.Open(masterkey.Options{
		Dir: b.config.Data, Name: pki.KeyFile, Bridge: holder, Versions: tables.Masters, Holders: tables.Holders, Log: b.log,
	})
	if err != nil {
		return nil, err
	}
	operators := &events.Publisher{Publish: clients.Publish, Topic: b.topics.Event("security"), BridgeID: b.config.ID, Log: b.log}
	births := storage.Births(s.Store)
	trail, err := openAudit(ctx, b, s, births, seals, operators)
	if err != nil {
		return nil, err
	}
	b.life.Add("audit", trail.Close)
	var chains *storage.Chains
	if b.config.Shared() {
		chains = storage.NewChains(s.Store, seals, births, b.config.ID, b.log)
	}
	actions, err := commands.NewSet(append(ownCommands(), b.commands...)...)
	if err != nil {
		return nil, err
	}
	policies, err := policy.New(policy.Options{
		Actions:    actions,
		Entities:   authz.Facts{Agents: later.agents.value, Caps: later.channels.value, Approvals: later.approvals.value},
		Notify:     events.Policies(trail),
		Log:        b.log,
		Registerer: b.metrics,
	})
	if err != nil {
		return nil, err
	}
	authorizer := security.NewAuthorizer(policies)
	return &guard{
		seals: seals, sealTables: tables, caKey: caKey, audit: trail, chains: chains, events: operators, credentials: security.NewCredentials(b.clock),
		policies: policies, authorizer: authorizer, judge: authz.Judge{Policies: policies, Authorizer: authorizer},
	}, nil
}
