package model

import "github.com/aibridge/aibridge/protocol"

// View is a model in the results for callers.
type View struct {
	ID        string   `json:"id" doc:"name for options.model"`
	Name      string   `json:"name" doc:"name of the model at its first provider"`
	Version   string   `json:"version" doc:"as configured"`
	Status    string   `json:"status" enum:"available,degraded,unavailable" doc:"degraded if the last request to some of its providers failed, unavailable if the breakers of all are open"`
	Aliases   []string `json:"aliases" doc:"other names for options.model"`
	Default   bool     `json:"default" doc:"true if it answers queries that name no model"`
	MaxTokens int      `json:"max_tokens,omitempty" doc:"longest answer"`
}

// List returns the models that a space may use.
func (s *Service) List(of protocol.SpaceID) []View { return s.list(access{space: string(of)}) }

// ListFor returns the models that a principal may ask in its own space.
func (s *Service) ListFor(who *protocol.Principal) []View {
	return s.list(s.accessOf(who, string(who.Home())))
}

func (s *Service) list(may access) []View {
	list := []View{}
	cat := s.catalog.Load()
	if cat == nil {
		return list
	}
	chosen := cat.find("", may)
	for _, m := range cat.models {
		if m.Kind == EmbeddingModel || !may.allows(m) {
			continue
		}
		aliases := m.Aliases
		if aliases == nil {
			aliases = []string{}
		}
		list = append(list, View{
			ID: m.Name, Name: m.targets[0].Model, Version: m.Version, Status: m.status(),
			Aliases: aliases, Default: m == chosen, MaxTokens: m.MaxTokens,
		})
	}
	return list
}

func (m *model) status() string {
	var all health
	for _, t := range m.targets {
		state, last, _ := t.provider.breaker.state()
		all.add(state, last)
	}
	return all.status()
}
