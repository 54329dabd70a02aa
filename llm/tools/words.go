package tools

import (
	"strings"
	"unicode"
)

// A term is a word of a tool's texts with its weight.
type term struct {
	word   string
	weight float32
}

// The weights of a word, by its place.
const (
	weightName      = 3
	weightTitle     = 2
	weightParameter = 1
	weightText      = 1
)

// maxTerms is the greatest number of words of one tool.
const maxTerms = 1024

// termsOf lists the words of a tool's texts, each once.
func termsOf(d *Declaration) []term {
	var list []term
	at := make(map[string]int)
	add := func(text string, weight float32) {
		for word := range words(text) {
			i, known := at[word]
			switch {
			case known:
				list[i].weight += weight
			case len(list) < maxTerms:
				at[word] = len(list)
				list = append(list, term{word, weight})
			}
		}
	}
	add(d.Name, weightName)
	add(d.Title, weightTitle)
	add(d.Description, weightText)
	for i := range d.Parameters {
		add(d.Parameters[i].Name, weightParameter)
		add(d.Parameters[i].Description, weightText)
	}
	if len(d.Schema) > 0 {
		if doc, err := readSchema(d.Schema); err == nil {
			for name := range doc.Properties {
				add(name, weightParameter)
			}
		}
	}
	return list
}

// words yields the words of a text in lower case and without a plural's s:
// parts of camelCase are words of their own, and so is every letter of scripts
// that put no space between words, alone and with the one before it.
func words(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var word strings.Builder
		var last, dense rune
		flush := func() bool {
			if word.Len() == 0 {
				return true
			}
			w := stem(word.String())
			word.Reset()
			return yield(w)
		}
		for _, r := range text {
			switch {
			case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
				if !flush() || !yield(string(r)) || dense != 0 && !yield(string([]rune{dense, r})) {
					return
				}
				dense, last = r, r
				continue
			case unicode.IsLetter(r) || unicode.IsDigit(r):
				if unicode.IsUpper(r) && unicode.IsLower(last) && !flush() {
					return
				}
				word.WriteRune(unicode.ToLower(r))
			default:
				if !flush() {
					return
				}
			}
			dense, last = 0, r
		}
		flush()
	}
}

// stem removes the s of a plural.
func stem(word string) string {
	if len(word) > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") {
		return word[:len(word)-1]
	}
	return word
}

// sharesWord reports whether two texts have a word in common.
func sharesWord(a, b string) bool {
	for x := range words(a) {
		for y := range words(b) {
			if x == y {
				return true
			}
		}
	}
	return false
}
