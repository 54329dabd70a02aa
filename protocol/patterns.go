package protocol

import "sync/atomic"

// Patterns are a few patterns of envelopes of one sender, each with the reader's
// own notes on what they are about. Any goroutine may use them. The zero value
// has none yet.
type Patterns[T any] struct {
	known  [maxPatterns]atomic.Pointer[Known[T]]
	last   atomic.Uint32 // that fitted, or was learnt
	fits   atomic.Uint32
	learnt atomic.Uint32
}

// Known is a pattern with notes.
type Known[T any] struct {
	*Pattern
	Notes T
}

const (
	maxPatterns = 4
	// freeLessons is the number of patterns that are learnt of whoever sends one form
	// after the other. Further ones have to be paid for by envelopes that fit.
	freeLessons   = 2 * maxPatterns
	fitsPerLesson = 32
)

// Fit reads an envelope that fits one of the patterns, and notes its parts in fit, which
// has none yet. Known is nil if none does.
func (p *Patterns[T]) Fit(data []byte, fit *Fit) *Known[T] {
	last := p.last.Load()
	for i := range uint32(maxPatterns) {
		at := (last + i) % maxPatterns
		k := p.known[at].Load()
		if k == nil {
			continue
		}
		if k.Fit(data, fit) {
			p.fits.Add(1)
			if i > 0 {
				p.last.Store(at)
			}
			return k
		}
		*fit = Fit{}
	}
	return nil
}

// Learns reports whether one more pattern is worth its making: not of a sender
// whose envelopes are all different.
func (p *Patterns[T]) Learns() bool {
	return p.learnt.Load() < freeLessons+p.fits.Load()/fitsPerLesson
}

// Learn takes a pattern up, in place of the one that was learnt first. One that
// is nil takes up a lesson.
func (p *Patterns[T]) Learn(one *Pattern, notes T) {
	n := p.learnt.Add(1)
	if one == nil {
		return
	}
	p.known[n%maxPatterns].Store(&Known[T]{one, notes})
	p.last.Store(n % maxPatterns)
}

// Replies are patterns of what one client answers.
type Replies = Patterns[struct{}]
