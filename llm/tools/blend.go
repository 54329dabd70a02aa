package tools

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"sync"
)

// An Embedder turns texts into vectors, those of similar meaning into similar
// ones. The result has a vector for each text, all of the same length.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// A Blender finds tools by their words and by their meaning. It is safe for
// use by many goroutines.
type Blender struct {
	embedder Embedder

	mu      sync.Mutex
	vectors map[[sha256.Size]byte][]float32 // of tools, by hash; of length 1
}

// The bounds of a [Blender].
const (
	maxVectors = 20_000
	batchSize  = 64 // texts embedded at once
)

// rankBias is that of reciprocal rank fusion, as usual.
const rankBias = 60

// NewBlender makes a blender.
func NewBlender(e Embedder) *Blender {
	return &Blender{embedder: e, vectors: make(map[[sha256.Size]byte][]float32)}
}

// Relevant is [Toolbox.Relevant] with the meaning of the query added: a tool
// that comes first by its words or by its meaning comes before one that is
// somewhere in the middle by both. With an error, which says why there is no
// meaning, the words alone have decided.
func (m *Blender) Relevant(ctx context.Context, b *Toolbox, query string, n int) ([]*Tool, error) {
	meaning, err := m.similar(ctx, b, query)
	if err != nil {
		return b.Relevant(query, n), err
	}
	x := b.ranks()
	wordy := x.rank(query)
	defer x.release(wordy)
	blended := make([]float32, len(b.tools))
	addRanks(blended, *wordy)
	addRanks(blended, meaning)
	return b.best(blended, n), nil
}

// addRanks adds to the score of each tool what its rank by other scores is
// worth. A score of nothing is worth nothing.
func addRanks(to, scores []float32) {
	order := make([]int, 0, len(scores))
	for i, s := range scores {
		if s > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(cmp.Compare(scores[j], scores[i]), cmp.Compare(i, j)) })
	for rank, i := range order {
		to[i] += 1 / float32(rankBias+rank+1)
	}
}

// similar says how similar each tool is to the query, 0 for not at all.
func (m *Blender) similar(ctx context.Context, b *Toolbox, query string) ([]float32, error) {
	vectors, err := m.vectorsOf(ctx, b.tools)
	if err != nil {
		return nil, err
	}
	asked, err := m.embed(ctx, []string{query})
	if err != nil {
		return nil, err
	}
	scores := make([]float32, len(b.tools))
	for i, v := range vectors {
		if len(v) != len(asked[0]) {
			return nil, fmt.Errorf("the vector of the query has %d dimensions, that of a tool %d", len(asked[0]), len(v))
		}
		for k := range v {
			scores[i] += v[k] * asked[0][k]
		}
	}
	return scores, nil
}

// vectorsOf returns the vectors of tools, in their order. Only what has not
// been embedded before is.
func (m *Blender) vectorsOf(ctx context.Context, list []*Tool) ([][]float32, error) {
	vectors := make([][]float32, len(list))
	var missing []int
	m.mu.Lock()
	for i, t := range list {
		if v, ok := m.vectors[t.Hash()]; ok {
			vectors[i] = v
		} else {
			missing = append(missing, i)
		}
	}
	m.mu.Unlock()
	for some := range slices.Chunk(missing, batchSize) {
		texts := make([]string, len(some))
		for k, i := range some {
			texts[k] = list[i].Name + ": " + list[i].Title + " " + tame(list[i].Description, maxForeign)
		}
		made, err := m.embed(ctx, texts)
		if err != nil {
			return nil, err
		}
		m.mu.Lock()
		if len(m.vectors)+len(some) > maxVectors {
			clear(m.vectors)
		}
		for k, i := range some {
			vectors[i] = made[k]
			m.vectors[list[i].Hash()] = made[k]
		}
		m.mu.Unlock()
	}
	return vectors, nil
}

// embed embeds texts and brings the vectors to length 1.
func (m *Blender) embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := m.embedder.Embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	if len(vectors) != len(texts) {
		return nil, fmt.Errorf("%d texts were given %d vectors", len(texts), len(vectors))
	}
	for i, v := range vectors {
		var square float64
		for _, x := range v {
			square += float64(x) * float64(x)
		}
		if square == 0 || math.IsNaN(square) || math.IsInf(square, 0) {
			return nil, fmt.Errorf("vector %d has no direction", i)
		}
		unit := make([]float32, len(v))
		for k, x := range v {
			unit[k] = float32(float64(x) / math.Sqrt(square))
		}
		vectors[i] = unit
	}
	return vectors, nil
}
