// Package gemini is the adapter of Google's Gemini API.
package gemini

import (
	"context"
	"net/url"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

// Origin marks the parts whose thought signature goes back to this wire.
const Origin = "gemini"

// A Dialect holds the abilities of a service's models.
type Dialect struct {
	// ThinkingBudget requests reasoning by a number of tokens instead of a level, for
	// models before Gemini 3. Models that are known by their name need no setting.
	ThinkingBudget bool `yaml:"thinking_budget"`
}

// A Provider is one service. It implements [chat.Provider].
type Provider struct {
	Client  *wire.Client
	Dialect Dialect

	extras wire.Extras
}

var _ chat.Provider = (*Provider)(nil)

// Stream implements [chat.Provider].
func (p *Provider) Stream(ctx context.Context, r *chat.Request, emit func(chat.Event) error) error {
	path := "/v1beta/models/" + url.PathEscape(strings.TrimPrefix(r.Model, "models/")) + ":streamGenerateContent?alt=sse"
	return p.extras.Ask(r.Model, func(parts *wire.Parts) (told bool, err error) {
		tools := wire.NamesOf(r)
		body, err := p.encode(r, tools, parts)
		if err != nil {
			return false, err
		}
		d := &decoder{client: p.Client, names: tools, out: wire.NewStream(emit)}
		if err = p.Client.Post(ctx, path, body, d.event, d.whole); err == nil {
			err = d.end()
		}
		return !d.out.Empty(), err
	})
}

// maxPages bounds the list of models, 1000 to a page.
const maxPages = 10

// Models implements [chat.Provider].
func (p *Provider) Models(ctx context.Context) (models []chat.Model, err error) {
	query := url.Values{"pageSize": {"1000"}}
	for range maxPages {
		var page struct {
			Models []struct {
				Name    string `json:"name"`
				Display string `json:"displayName"`
				Version string `json:"version"`
			} `json:"models"`
			Next string `json:"nextPageToken"`
		}
		if err := p.Client.Get(ctx, "/v1beta/models?"+query.Encode(), &page); err != nil {
			return nil, err
		}
		for _, m := range page.Models {
			models = append(models, chat.Model{ID: strings.TrimPrefix(m.Name, "models/"), Name: m.Display, Version: m.Version})
		}
		if page.Next == "" {
			break
		}
		query.Set("pageToken", page.Next)
	}
	return models, nil
}
