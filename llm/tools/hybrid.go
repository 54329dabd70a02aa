package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

// An Embedder turns texts into vectors, those of similar meaning into similar
// ones.
type Embedder interface {
	// Vectors names the kind of vectors that Embed currently returns in an environment,
	// "" for none. Vectors of the same name can be compared.
	Vectors(env Environment) string
	// Embed returns a vector for each text, all of the same length. An environment
	// without a principal stands for its whole space.
	Embed(ctx context.Context, env Environment, texts []string) (name string, vectors [][]float32, err error)
}

// A Retriever finds the most relevant tools for a query, as [Toolbox.Relevant] does:
// exactly n, and pinned ones always. [HybridRetriever] is one.
type Retriever interface {
	Relevant(ctx context.Context, env Environment, b *Toolbox, query string, n int) []*Tool
}

var _ Retriever = (*HybridRetriever)(nil)

// HybridOptions configure a [HybridRetriever]. Zero fields mean the defaults.
type HybridOptions struct {
	Embedder   Embedder      // nil ranks by words alone
	Patience   time.Duration // time that a query waits for vectors; default 500 ms
	Registerer prometheus.Registerer
}

// DefaultPatience is the default time that a [HybridRetriever] waits for vectors.
const DefaultPatience = 500 * time.Millisecond

// A HybridRetriever finds tools by their words and, if their vectors are ready in time,
// by their meaning. The vectors of tools are made once for each declaration, by
// [HybridRetriever.Run], so that a query needs only its own. It is safe for use by many
// goroutines.
type HybridRetriever struct {
	opts    HybridOptions
	metrics *prometheus.CounterVec
	fills   chan *fill

	mu      sync.Mutex
	vectors map[vectorKey][]float32 // of length 1
	floats  int                     // number of floats in all vectors of tools
	asked   map[queryKey][]float32  // vectors of queries
	filling map[fillKey]*fill
}

// A vectorKey is the key of a tool's vector: the declaration in a space.
type vectorKey struct {
	name  string // of the vectors
	space protocol.SpaceID
	hash  [32]byte
}

type queryKey struct {
	name  string
	space protocol.SpaceID
	query string
}

// A fill is the job of making the vectors of a toolbox.
type fill struct {
	fillKey
	tools []*Tool
	err   error
	done  chan struct{}
}

type fillKey struct {
	name  string
	space protocol.SpaceID
	box   string // its revision
}

// The bounds of a [HybridRetriever].
const (
	maxFloats    = 16 << 20         // of all vectors together
	maxAsked     = 256              // queries whose vectors are kept
	maxFills     = 16               // waiting fills
	batchSize    = 64               // texts embedded at once
	batchTimeout = 30 * time.Second // of one batch
	maxQueryText = 4 << 10          // bytes of a query that are embedded
)

// rankBias is the usual constant of reciprocal rank fusion.
const rankBias = 60

// The reasons for a ranking by words alone.
var (
	errFilling = errors.New("the vectors of the tools are not made yet")
	errTooMany = errors.New("there are more tools than vectors are kept of")
	errChanged = errors.New("the model of the vectors has changed meanwhile")
)

// NewHybridRetriever returns a retriever. Without [HybridRetriever.Run] there are no
// vectors of tools.
func NewHybridRetriever(o HybridOptions) *HybridRetriever {
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	m := &HybridRetriever{
		opts: o, fills: make(chan *fill, maxFills), vectors: make(map[vectorKey][]float32),
		asked: make(map[queryKey][]float32), filling: make(map[fillKey]*fill),
		metrics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_tools_retrievals_total",
			Help: "Choices of the most relevant tools, by what decided: blended, or words alone because there is no model for embeddings (words), it was too slow (slow), it failed (failed), or the vectors of the tools are being made (filling).",
		}, []string{"by"}),
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(m.metrics)
	}
	return m
}

// Relevant is [Toolbox.Relevant] with the meaning of the query added: a tool that is
// first by words or by meaning precedes one in the middle of both rankings. If vectors
// are not ready in time, words alone decide.
func (m *HybridRetriever) Relevant(ctx context.Context, env Environment, b *Toolbox, query string, n int) []*Tool {
	meaning, err := m.similar(ctx, env, b, query)
	m.metrics.WithLabelValues(decidedBy(meaning, err)).Inc()
	if meaning == nil {
		return b.Relevant(query, n)
	}
	x := b.ranks()
	wordy := x.rank(query)
	defer x.release(wordy)
	blended := make([]float32, len(b.tools))
	addRanks(blended, *wordy)
	addRanks(blended, meaning)
	return b.best(blended, n)
}

func decidedBy(meaning []float32, err error) string {
	switch {
	case meaning != nil:
		return "blended"
	case err == nil:
		return "words"
	case errors.Is(err, errFilling):
		return "filling"
	case errors.Is(err, context.DeadlineExceeded), protocol.CodeOf(err) == protocol.TimedOut:
		return "slow"
	}
	return "failed"
}

// addRanks adds the reciprocal rank of each tool by scores to its score. A tool with
// score 0 gets nothing.
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

// similar returns the similarity of each tool to the query, nil without a model for
// embeddings.
func (m *HybridRetriever) similar(ctx context.Context, env Environment, b *Toolbox, query string) ([]float32, error) {
	if m.opts.Embedder == nil || query == "" || len(b.tools) == 0 {
		return nil, nil
	}
	name := m.opts.Embedder.Vectors(env)
	if name == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.opts.Patience)
	defer cancel()
	vectors, err := m.ofTools(ctx, name, env, b)
	if err != nil {
		return nil, err
	}
	asked, err := m.ofQuery(ctx, name, env, query)
	if err != nil {
		return nil, err
	}
	scores := make([]float32, len(b.tools))
	for i, v := range vectors {
		if len(v) != len(asked) {
			return nil, fmt.Errorf("the vector of the query has %d dimensions, that of a tool %d", len(asked), len(v))
		}
		for k := range v {
			scores[i] += v[k] * asked[k]
		}
	}
	return scores, nil
}

// ofTools returns the vectors of the tools of a box, in their order, as soon as
// they are made.
func (m *HybridRetriever) ofTools(ctx context.Context, name string, env Environment, b *Toolbox) ([][]float32, error) {
	space := spaceOf(env)
	vectors := make([][]float32, len(b.tools))
	if m.known(name, space, b.tools, vectors) {
		return vectors, nil
	}
	f := m.begin(fillKey{name, space, b.Revision()}, b.tools)
	if f == nil {
		return nil, errFilling
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, errFilling
	}
	if f.err != nil {
		return nil, f.err
	}
	if !m.known(name, space, b.tools, vectors) {
		return nil, errTooMany // the vectors of other tools have replaced them
	}
	return vectors, nil
}

// known fills in the vectors of tools, and reports whether all are known.
func (m *HybridRetriever) known(name string, space protocol.SpaceID, list []*Tool, vectors [][]float32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, t := range list {
		v, ok := m.vectors[vectorKey{name, space, t.Hash()}]
		if !ok {
			return false
		}
		vectors[i] = v
	}
	return true
}

// begin enqueues a fill, or returns the one of the same key under way. It returns nil
// if the queue is full.
func (m *HybridRetriever) begin(key fillKey, list []*Tool) *fill {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.filling[key]; f != nil {
		return f
	}
	f := &fill{fillKey: key, tools: list, done: make(chan struct{})}
	select {
	case m.fills <- f:
		m.filling[key] = f
		return f
	default:
		return nil
	}
}

// Run makes the vectors of tools until ctx ends.
func (m *HybridRetriever) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-m.fills:
			f.err = m.make(ctx, f)
			m.mu.Lock()
			delete(m.filling, f.fillKey)
			m.mu.Unlock()
			close(f.done)
		}
	}
}

// make makes the missing vectors of a fill.
func (m *HybridRetriever) make(ctx context.Context, f *fill) error {
	var missing []*Tool
	m.mu.Lock()
	for _, t := range f.tools {
		if _, ok := m.vectors[vectorKey{f.name, f.space, t.Hash()}]; !ok {
			missing = append(missing, t)
		}
	}
	m.mu.Unlock()
	for some := range slices.Chunk(missing, batchSize) {
		texts := make([]string, len(some))
		for i, t := range some {
			texts[i] = t.Name + ": " + tame(t.Title+" "+t.Description, maxForeign)
		}
		batch, cancel := context.WithTimeout(ctx, batchTimeout)
		made, err := m.embed(batch, f.name, Environment{Space: f.space}, texts)
		cancel()
		if err != nil {
			return err
		}
		if len(f.tools)*len(made[0]) > maxFloats {
			return errTooMany
		}
		m.keep(f, some, made)
	}
	return nil
}

// keep stores vectors. If they exceed the bound together, it deletes all earlier ones.
func (m *HybridRetriever) keep(f *fill, list []*Tool, made [][]float32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.floats+len(made)*len(made[0]) > maxFloats {
		clear(m.vectors)
		m.floats = 0
	}
	for i, t := range list {
		key := vectorKey{f.name, f.space, t.Hash()}
		m.floats += len(made[i]) - len(m.vectors[key])
		m.vectors[key] = made[i]
	}
}

// ofQuery returns the vector of a query. The vectors of recent queries are kept, since
// workflows repeat their queries.
func (m *HybridRetriever) ofQuery(ctx context.Context, name string, env Environment, query string) ([]float32, error) {
	if len(query) > maxQueryText {
		query = shorten(query, maxQueryText)
	}
	key := queryKey{name, spaceOf(env), query}
	m.mu.Lock()
	v := m.asked[key]
	m.mu.Unlock()
	if v != nil {
		return v, nil
	}
	made, err := m.embed(ctx, name, env, []string{query})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.asked) >= maxAsked {
		clear(m.asked)
	}
	m.asked[key] = made[0]
	return made[0], nil
}

// embed embeds texts and normalises the vectors to length 1.
func (m *HybridRetriever) embed(ctx context.Context, name string, env Environment, texts []string) ([][]float32, error) {
	by, vectors, err := m.opts.Embedder.Embed(ctx, env, texts)
	switch {
	case err != nil:
		return nil, err
	case by != name:
		return nil, errChanged
	case len(vectors) != len(texts):
		return nil, fmt.Errorf("%d texts were given %d vectors", len(texts), len(vectors))
	}
	for i, v := range vectors {
		var square float64
		for _, x := range v {
			square += float64(x) * float64(x)
		}
		if len(v) != len(vectors[0]) || square == 0 || math.IsNaN(square) || math.IsInf(square, 0) {
			return nil, fmt.Errorf("vector %d has no direction, or another number of dimensions", i)
		}
		unit := make([]float32, len(v))
		for k, x := range v {
			unit[k] = float32(float64(x) / math.Sqrt(square))
		}
		vectors[i] = unit
	}
	return vectors, nil
}

// spaceOf is the space of an environment.
func spaceOf(env Environment) protocol.SpaceID {
	if env.Space == "" && env.Principal != nil {
		return env.Principal.Home()
	}
	return env.Space
}
