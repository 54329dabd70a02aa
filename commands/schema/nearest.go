package schema

import (
	"iter"
	"strings"
)

// Nearest returns the candidate a misspelt name most probably meant, if one
// is close enough to be worth a "did you mean".
func Nearest(name string, candidates iter.Seq[string]) (string, bool) {
	if name == "" || len(name) > 128 {
		return "", false
	}
	limit := min(max((len(name)+1)/3, 1), 4) // a third of the letters may be wrong
	best, distance := "", limit+1
	for c := range candidates {
		if d := editDistance(strings.ToLower(name), c, distance); d < distance {
			best, distance = c, d
		}
	}
	return best, best != ""
}

// Meant is [Nearest], or else the shortest candidate whose first words, before an
// underscore, are the name: skill for skill_id.
func Meant(name string, candidates iter.Seq[string]) (string, bool) {
	if near, ok := Nearest(name, candidates); ok {
		return near, true
	}
	best := ""
	for c := range candidates {
		if name != "" && strings.HasPrefix(c, strings.ToLower(name)+"_") && (best == "" || len(c) < len(best)) {
			best = c
		}
	}
	return best, best != ""
}

// editDistance counts the letters to insert, delete, replace or swap to turn
// a into b, or gives up at most.
func editDistance(a, b string, most int) int {
	if diff := len(a) - len(b); diff >= most || -diff >= most {
		return most
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
