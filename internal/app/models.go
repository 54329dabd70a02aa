package app

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm/agent"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit/events"
)

// The modelParts are the language models, and the agent that answers for them.
type modelParts struct {
	service *model.Service
	agent   *agent.Agent
	relay   *relaying // nil of a bridge that works alone
}

// newModels makes the part that asks language models. Its tables are loaded
// afterwards.
func newModels(s *state, ring *security.Keyring) *modelParts {
	agent := agent.New(protocol.AgentID(s.config.LLM.Agent), s.addresses.URL("/api/mcp-agent/llm"))
	record := events.Models(s.audit)
	m := &modelParts{agent: agent}
	m.service = model.New(model.Options{
		Spent:    store.NewTable[model.Spent](s.Store, "llmspent").Essential(),
		Spending: store.NewTable[model.Spending](s.Store, "llmspending").Essential(),
		Bridge:   s.node(),
		Bridges:  s.spenders(),
		Centre:   m.centreBudgets(s),
		Alert:    events.Budgets(s.audit), Allowance: ring.Allowance,
		Configured: func(c model.Configured) {
			record(c)
			agent.Changed()
		},
		Log:        s.log,
		Tracer:     s.tracer,
		Registerer: s.metrics,
	})
	return m
}

// Spenders are the processes of a cluster that spend budgets together, as package
// model knows them.
type spenders struct{ *state }

// spenders returns those of a bridge that works beside others, nil for none.
func (s *state) spenders() model.Bridges {
	if !s.Members.Shared() || s.Members.Working() != cluster.All {
		return nil
	}
	return spenders{s}
}

func (s spenders) Self() string                      { return s.owner() }
func (s spenders) Alive(process string) bool         { return !s.ended(process) }
func (s spenders) Catchup(ctx context.Context) error { return s.Members.Catchup(ctx) }

// modelStatus is the errand of telling how the models fare.
const modelStatus = "llm.status"

// elsewhere exchanges the states of models with other bridges. It is nil for a
// bridge that works alone.
func (m *modelParts) elsewhere(shared *relaying) func(context.Context) []model.BridgeStatus {
	if shared == nil {
		return nil
	}
	shared.errands.does[modelStatus] = func(context.Context, json.RawMessage) (any, error) { return m.service.StatusHere(), nil }
	return func(ctx context.Context) []model.BridgeStatus {
		heard, silent := haveAll[model.Status](ctx, shared, modelStatus, struct{}{})
		var others []model.BridgeStatus
		for id, s := range heard {
			others = append(others, model.BridgeStatus{Bridge: id, Status: s.Status, ActiveRequests: s.ActiveRequests, Revision: s.Revision, Providers: s.Providers})
		}
		for _, id := range silent {
			others = append(others, model.BridgeStatus{Bridge: id, Status: "silent", Providers: []model.ProviderStatus{}})
		}
		slices.SortFunc(others, func(a, b model.BridgeStatus) int { return strings.Compare(a.Bridge, b.Bridge) })
		return others
	}
}

// configure puts the configuration of models to work. Without one there are no
// models, and the commands fail.
func (m *modelParts) configure(s *state) error {
	s.life.Run("language models", m.service.Run)
	switch l := &s.config.LLM; {
	case l.File != "":
		file, err := model.OpenFile(m.service, l.File, s.config.Places().Models)
		if err != nil {
			return err
		}
		s.life.Run("configuration of language models", file.Run)
	case l.BaseURL != "":
		if _, err := m.service.Configure(l.Simple()); err != nil {
			return err
		}
	}
	return nil
}

// names are the names of models that a space may ask for.
func (m *modelParts) names(space protocol.SpaceID) []string {
	var names []string
	for _, m := range m.service.List(space) {
		names = append(append(names, m.ID), m.Aliases...)
	}
	return names
}

// An embedder has the configured models make vectors.
type embedder struct{ models *model.Service }

var _ tools.Embedder = embedder{}

// Vectors implements [tools.Embedder].
func (e embedder) Vectors(env tools.Environment) string { return e.models.Embeds(embeddingSpace(env)) }

// Embed implements [tools.Embedder].
func (e embedder) Embed(ctx context.Context, env tools.Environment, texts []string) (string, [][]float32, error) {
	made, err := e.models.Embed(ctx, model.EmbedQuestion{Principal: env.Principal, Space: embeddingSpace(env), Texts: texts})
	if err != nil {
		return "", nil, err
	}
	return made.Model, made.Vectors, nil
}

func embeddingSpace(env tools.Environment) protocol.SpaceID {
	if env.Space == "" && env.Principal != nil {
		return env.Principal.Home()
	}
	return env.Space
}
