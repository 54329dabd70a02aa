package model

import (
	"context"
	"errors"
	"fmt"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/redact"
	"github.com/aibridge/aibridge/llm/wire"
	"github.com/aibridge/aibridge/protocol"
)

// An EmbedQuestion is a request for the vectors of texts.
type EmbedQuestion struct {
	Principal *protocol.Principal // payer; nil for work for the whole space, which is free
	Space     protocol.SpaceID    // "" is the principal's own
	Texts     []string            // none of them empty
}

// Embedding holds the vectors of texts.
type Embedding struct {
	Model   string // vectors of the same model can be compared
	Vectors [][]float32
}

// ErrNoEmbeddings is the error of a space without a model for embeddings.
var ErrNoEmbeddings = errors.New("no model for embeddings is configured")

// Embeds is the current [Embedding.Model] of a space, "" for none.
func (s *Service) Embeds(space protocol.SpaceID) string {
	cat := s.catalog.Load()
	if cat == nil {
		return ""
	}
	m := cat.embedding(string(space))
	if m == nil {
		return ""
	}
	return m.vectors()
}

// vectors is the [Embedding.Model] of a model. All its routes name the same model.
func (m *model) vectors() string { return fmt.Sprintf("%s/%d", m.targets[0].Model, m.Dimensions) }

// Embed turns texts into vectors, by the first model of kind embedding that the space
// may use. Providers are tried in turn. The error is [ErrNoEmbeddings], one of the
// protocol, or that of ctx.
func (s *Service) Embed(ctx context.Context, q EmbedQuestion) (*Embedding, error) {
	space := q.Space
	if space == "" {
		space = q.Principal.Home()
	}
	cat := s.catalog.Load()
	if cat == nil {
		return nil, ErrNoEmbeddings
	}
	m := cat.embedding(string(space))
	if m == nil {
		return nil, ErrNoEmbeddings
	}
	r := &chat.EmbedRequest{Texts: s.clean(cat, string(space), q.Texts), Dimensions: m.Dimensions}
	if q.Principal == nil {
		made, _, err := s.embed(ctx, fair.Party{Space: string(space)}, m, string(space), r)
		return made, err
	}
	held, err := s.cover(ctx, q.Principal, demand{tokens: int64(textTokens(r.Texts)), input: int64(textTokens(r.Texts))}, 0)
	if err != nil {
		return nil, err
	}
	made, used, err := s.embed(ctx, fair.Of(q.Principal), m, string(space), r)
	s.settle(held, Payment{Principal: q.Principal.Party(), Model: m.Name, Provider: used.provider}, &used)
	return made, err
}

// textTokens estimates the tokens of texts.
func textTokens(texts []string) int {
	n := 0
	for _, text := range texts {
		n += len(text)
	}
	return n / bytesPerToken
}

// clean returns texts with their secrets redacted for good.
func (s *Service) clean(cat *catalog, space string, texts []string) []string {
	rules := cat.redactions(space)
	if len(rules) == 0 {
		return texts
	}
	cleaned := make([]string, len(texts))
	all := 0
	for i, text := range texts {
		var taken int
		cleaned[i], taken = redact.Text(rules, text)
		all += taken
	}
	s.metrics.redacted.Add(float64(all))
	return cleaned
}

// embed asks the targets of a model in turn.
func (s *Service) embed(ctx context.Context, who fair.Party, m *model, space string, r *chat.EmbedRequest) (*Embedding, waste, error) {
	var failed failures
	for _, t := range m.order(who) {
		if ok, _ := t.provider.embeds.admit(); !ok {
			failed.add(t.provider, t.provider.embeds.why())
			continue
		}
		made, err := s.embedAt(ctx, who, m, t, r)
		s.metrics.embedded.WithLabelValues(m.Name, t.provider.config.Name, space, ending(err)).Inc()
		if err == nil {
			made.Usage = made.Usage.Plausible()
			if made.Usage.Input == 0 { // not every service counts tokens
				made.Usage.Input = textTokens(r.Texts)
			}
			cost := t.Price.cost(made.Usage)
			s.metrics.tokens.WithLabelValues(m.Name, space, "input").Add(float64(made.Usage.Input))
			if cost > 0 {
				s.metrics.cost.WithLabelValues(m.Name, space).Add(cost)
			}
			return &Embedding{Model: m.vectors(), Vectors: made.Vectors}, waste{t.provider.config.Name, made.Usage, cost}, nil
		}
		failure := asFailure(err)
		if failure == nil {
			return nil, waste{}, err
		}
		failed.add(t.provider, failure)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, waste{}, failed.error(0)
}

// embedAt asks one target.
func (s *Service) embedAt(ctx context.Context, who fair.Party, m *model, t target, r *chat.EmbedRequest) (*chat.Embeddings, error) {
	p := t.provider
	embedder, ok := p.Provider.(chat.Embedder)
	if !ok {
		p.embeds.abandoned()
		return nil, chat.Errorf(chat.BadRequest, "the provider has no embeddings")
	}
	leave, err := p.enter(ctx, who, false)
	if err != nil {
		p.embeds.abandoned()
		return nil, chat.Errorf(chat.Overloaded, "%s", protocol.AsError(err).Message)
	}
	defer leave()
	meter := &answerMeter{space: s.answers, party: who}
	defer meter.close()
	asked := *r
	asked.Model = t.Model
	ctx, span := s.startEmbedding(ctx, m, t)
	began := s.opts.Now()
	made, err := embedder.Embed(wire.Metered(ctx, meter), &asked)
	endEmbedding(span, made, err)
	s.metrics.told(semconv.Embeddings, t, err, s.opts.Now().Sub(began))
	switch failure := asFailure(err); {
	case err == nil:
		p.embeds.succeeded()
	case failure == nil: // caused by the caller
		p.embeds.abandoned()
	default:
		p.embeds.failed(failure)
		s.opts.Log.Warn("a provider of embeddings failed", "provider", p.config.Name, "kind", failure.Kind, "status", failure.Status, "error", failure.Message, "cause", failure.Cause)
	}
	return made, err
}

func ending(err error) string {
	if err == nil {
		return "ok"
	}
	if failure := asFailure(err); failure != nil {
		return string(failure.Kind)
	}
	return "cancelled"
}
