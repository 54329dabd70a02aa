package bench

// A stream follows the numbered messages of one publisher at one subscriber and counts
// losses, repetitions and misordering.
type stream struct {
	next       uint64   // one more than the highest number seen
	seen       []uint64 // a bit for each number
	distinct   int64
	duplicates int64
	disordered int64 // came after a higher number
}

// mostAhead is the greatest gap between a number and the next expected one, so that a
// garbled number does not allocate memory.
const mostAhead = 1 << 26

// A delivery is the class of a delivery.
type delivery uint8

const (
	garbled delivery = iota // never sent
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
