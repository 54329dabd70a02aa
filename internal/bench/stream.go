package bench

// A stream follows the numbered messages of one publisher at one subscriber
// and knows what did not come as it was sent.
type stream struct {
	next       uint64   // one more than the highest number seen
	seen       []uint64 // a bit for each number
	distinct   int64
	duplicates int64
	disordered int64 // came after a higher number
}

// mostAhead bounds how far a number may run ahead of the others, so that a
// garbled one does not claim memory.
const mostAhead = 1 << 26

// A delivery is what one that came turned out to be.
type delivery uint8

const (
	garbled delivery = iota // nobody sent it
	fresh
	repeated
)

// take notes the message of a number.
func (s *stream) take(number uint64) delivery {
	if number >= s.next+mostAhead {
		return garbled
	}
	word, bit := int(number>>6), uint64(1)<<(number&63)
	for len(s.seen) <= word {
		s.seen = append(s.seen, make([]uint64, max(64, len(s.seen)))...)
	}
	if s.seen[word]&bit != 0 {
		s.duplicates++
		return repeated
	}
	s.seen[word] |= bit
	s.distinct++
	if number < s.next {
		s.disordered++
	} else {
		s.next = number + 1
	}
	return fresh
}

// missing is the number of numbers below the highest that have not come, or not yet.
func (s *stream) missing() int64 { return int64(s.next) - s.distinct }
