// Package anthropic is the adapter of Anthropic's Messages API.
package anthropic

import (
	"context"
	"net/url"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

// Origin marks blocks of this wire, which go back to it unchanged.
const Origin = "anthropic"

// Version is the version of the API.
const Version = "2023-06-01"

// defaultMaxTokens is the limit of a request without one: the API requires a limit.
const defaultMaxTokens = 8192

// A Dialect holds the abilities of a service's models.
type Dialect struct {
	// ThinkingBudget requests reasoning by a number of tokens, for models before
	// adaptive thinking. Models that are known by their name need no setting.
	ThinkingBudget bool `yaml:"thinking_budget"`
	// NoCache leaves out the marks by which the service caches tools and system
	// prompts.
	NoCache bool `yaml:"no_cache"`
	// NoStrict leaves out strict for tools. By default only models of families that are
	// known to observe it get it; with Strict all models do.
	NoStrict bool `yaml:"no_strict"`
	Strict   bool `yaml:"strict"`
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
	return p.extras.Ask(r.Model, func(parts *wire.Parts) (told bool, err error) {
		tools := wire.NamesOf(r)
		body, err := p.encode(r, tools, parts)
		if err != nil {
			return false, err
		}
		d := &decoder{client: p.Client, names: tools, out: wire.NewStream(emit), blocks: make(map[int]*block)}
		if err = p.Client.Post(ctx, "/v1/messages", body, d.event, d.whole); err == nil {
			err = d.end()
		}
		return !d.out.Empty(), err
	})
}

// maxPages bounds the list of models, 1000 to a page.
const maxPages = 10

// Models implements [chat.Provider].
func (p *Provider) Models(ctx context.Context) (models []chat.Model, err error) {
	after := ""
	for range maxPages {
		var page struct {
			Data []struct {
				ID   string `json:"id"`
				Name string `json:"display_name"`
			} `json:"data"`
			HasMore bool   `json:"has_more"`
			LastID  string `json:"last_id"`
		}
		query := url.Values{"limit": {"1000"}}
		if after != "" {
			query.Set("after_id", after)
		}
		if err := p.Client.Get(ctx, "/v1/models?"+query.Encode(), &page); err != nil {
			return nil, err
		}
		for _, m := range page.Data {
			models = append(models, chat.Model{ID: m.ID, Name: m.Name})
		}
		if after = page.LastID; !page.HasMore || after == "" {
			break
		}
	}
	return models, nil
}
