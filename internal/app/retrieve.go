package app

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// newRetriever makes what chooses among many tools: by their words, and by
// their meaning if a model for embeddings is configured.
func (a *App) newRetriever() {
	a.tools.retriever = tools.NewHybridRetriever(tools.HybridOptions{
		Embedder:   embedder{a.models},
		Patience:   time.Duration(a.config.ToolLoop.Patience) * time.Millisecond,
		Registerer: a.metrics,
	})
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
