package tools

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// The usual parameters of BM25.
const (
	bm25K1 = 1.2
	bm25B  = 0.75
)

// An index finds tools by the words of their texts. It is immutable.
type index struct {
	postings map[string][]posting
	scores   sync.Pool // of *[]float32, all zero, one of each tool
}

// A posting is the score that a word adds to a tool.
type posting struct {
	tool  int32
	score float32
}

func newIndex(list []*Tool) *index {
	x := &index{postings: make(map[string][]posting)}
	x.scores.New = func() any { s := make([]float32, len(list)); return &s }
	lengths := make([]float64, len(list))
	var total float64
	for i, t := range list {
		for _, term := range t.prepare().terms {
			lengths[i] += float64(term.weight)
			x.postings[term.word] = append(x.postings[term.word], posting{int32(i), term.weight})
		}
		total += lengths[i]
	}
	average := max(total/float64(max(len(list), 1)), 1)
	for _, found := range x.postings {
		n := float64(len(found))
		idf := math.Log(1 + (float64(len(list))-n+0.5)/(n+0.5))
		for i := range found {
			tf := float64(found[i].score)
			length := lengths[found[i].tool] / average
			found[i].score = float32(idf * tf * (bm25K1 + 1) / (tf + bm25K1*(1-bm25B+bm25B*length)))
		}
	}
	return x
}

// maxQuery is the greatest number of words of a query that count.
const maxQuery = 64

// rank returns the sum of the scores of each tool. Release returns the slice to the
// pool.
func (x *index) rank(query string) *[]float32 {
	scores := x.scores.Get().(*[]float32)
	var seen [maxQuery]string
	n := 0
	for word := range words(query) {
		if n == maxQuery {
			break
		}
		if slices.Contains(seen[:n], word) {
			continue
		}
		seen[n] = word
		n++
		for _, p := range x.postings[word] {
			(*scores)[p.tool] += p.score
		}
	}
	return scores
}

func (x *index) release(scores *[]float32) {
	clear(*scores)
	x.scores.Put(scores)
}

// Relevant returns the n tools whose texts fit the query best, by relevance: exactly n
// if the box has that many, and the same ones for the same query. Pinned tools are
// always among them, even if that makes more than n.
func (b *Toolbox) Relevant(query string, n int) []*Tool {
	x := b.ranks()
	scores := x.rank(query)
	defer x.release(scores)
	return b.best(*scores, n)
}

func (b *Toolbox) ranks() *index {
	b.indexed.Do(func() { b.index = newIndex(b.tools) })
	return b.index
}

// best returns the pinned tools and those with the highest scores, n together.
func (b *Toolbox) best(scores []float32, n int) []*Tool {
	n = min(max(n, 0), len(b.tools))
	order := func(x, y int32) int { // tools are in the order of their names
		return cmp.Or(cmp.Compare(scores[y], scores[x]), cmp.Compare(x, y))
	}
	chosen := make([]int32, 0, n+1)
	for i, t := range b.tools {
		if t.Pinned {
			chosen = append(chosen, int32(i))
		}
	}
	pinned := len(chosen)
	for i, t := range b.tools {
		if t.Pinned || n <= pinned {
			continue
		}
		if len(chosen) == n && order(chosen[n-1], int32(i)) <= 0 {
			continue
		}
		others := chosen[pinned:]
		at, _ := slices.BinarySearchFunc(others, int32(i), order)
		chosen = slices.Insert(chosen, pinned+at, int32(i))
		if len(chosen) > n {
			chosen = chosen[:n]
		}
	}
	slices.SortFunc(chosen, order)
	best := make([]*Tool, len(chosen))
	for i, at := range chosen {
		best[i] = b.tools[at]
	}
	return best
}
