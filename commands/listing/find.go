package listing

import "strings"

// A Finder looks for a text in any case.
type Finder struct{ word string }

// Find makes a finder. That of "" finds itself in everything.
func Find(text string) Finder { return Finder{strings.ToLower(text)} }

// In reports whether one of the texts holds the text looked for.
func (f Finder) In(texts ...string) bool {
	if f.word == "" {
		return true
	}
	for _, t := range texts {
		if containsFold(t, f.word) {
			return true
		}
	}
	return false
}

// containsFold reports whether text contains word in any case. word must be in
// lower case.
func containsFold(text, word string) bool {
	if word == "" || len(word) > len(text) {
		return word == ""
	}
	for i := range len(word) {
		if word[i] >= 0x80 {
			return strings.Contains(strings.ToLower(text), word)
		}
	}
	for i := 0; i+len(word) <= len(text); i++ {
		if lower(text[i]) == word[0] && hasPrefixFold(text[i:], word) {
			return true
		}
	}
	return false
}

func hasPrefixFold(text, word string) bool {
	for i := range len(word) {
		if lower(text[i]) != word[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
