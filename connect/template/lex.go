package template

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A tokenKind is a sort of token.
type tokenKind byte

const (
	tokenEnd    tokenKind = iota
	tokenText             // outside of braces
	tokenOpen             // {{ or {%
	tokenClose            // }} or %}
	tokenName             // also keywords
	tokenNumber           // without a sign
	tokenString           // without its quotes
	tokenSign             // an operator or a bracket
)

type token struct {
	kind tokenKind
	text string
}

// lex cuts a template into tokens.
func lex(source string) ([]token, error) {
	l := &lexer{rest: source}
	for l.rest != "" {
		if err := l.outside(); err != nil {
			return nil, err
		}
	}
	return append(l.tokens, token{kind: tokenEnd}), nil
}

type lexer struct {
	rest   string
	trim   bool // the block before ends in -
	tokens []token
}

func (l *lexer) add(kind tokenKind, text string) { l.tokens = append(l.tokens, token{kind, text}) }

// outside takes the text before the next block, and the block.
func (l *lexer) outside() error {
	at := strings.IndexByte(l.rest, '{')
	for at >= 0 && !opens(l.rest[at:]) {
		next := strings.IndexByte(l.rest[at+1:], '{')
		if next < 0 {
			at = -1
			break
		}
		at += 1 + next
	}
	if at < 0 {
		l.text(l.rest, false)
		l.rest = ""
		return nil
	}
	before, open := l.rest[:at], l.rest[at:at+2]
	l.rest = l.rest[at+2:]
	trims := strings.HasPrefix(l.rest, "-")
	l.text(before, trims)
	if open == "{#" {
		_, after, closed := strings.Cut(l.rest, "#}")
		if !closed {
			return fmt.Errorf("{# is not closed")
		}
		l.rest = after
		return nil
	}
	l.rest = strings.TrimPrefix(l.rest, "-")
	l.add(tokenOpen, open)
	return l.inside(map[string]string{"{{": "}}", "{%": "%}"}[open])
}

func opens(s string) bool {
	return strings.HasPrefix(s, "{{") || strings.HasPrefix(s, "{%") || strings.HasPrefix(s, "{#")
}

// text takes text outside of blocks, without the space that the blocks beside
// it ask to have trimmed.
func (l *lexer) text(s string, trimEnd bool) {
	if l.trim {
		s = strings.TrimLeftFunc(s, unicode.IsSpace)
	}
	if trimEnd {
		s = strings.TrimRightFunc(s, unicode.IsSpace)
	}
	l.trim = false
	if s != "" {
		l.add(tokenText, s)
	}
}

// inside takes tokens up to the end of a block. A brace that closes a map does
// not end it.
func (l *lexer) inside(end string) error {
	braces := 0
	for {
		l.rest = strings.TrimLeftFunc(l.rest, unicode.IsSpace)
		switch {
		case l.rest == "":
			return fmt.Errorf("%s is missing", end)
		case braces == 0 && strings.HasPrefix(l.rest, "-"+end):
			l.rest, l.trim = l.rest[1+len(end):], true
			l.add(tokenClose, end)
			return nil
		case braces == 0 && strings.HasPrefix(l.rest, end):
			l.rest = l.rest[len(end):]
			l.add(tokenClose, end)
			return nil
		}
		if l.rest[0] == '{' {
			braces++
		}
		if l.rest[0] == '}' {
			braces--
		}
		if err := l.token(); err != nil {
			return err
		}
	}
}

var doubles = []string{"==", "!=", "<=", ">=", "//"}

// token takes one token within a block.
func (l *lexer) token() error {
	c, width := utf8.DecodeRuneInString(l.rest)
	switch {
	case c == '_' || unicode.IsLetter(c):
		l.take(tokenName, func(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) })
		return nil
	case c >= '0' && c <= '9':
		l.take(tokenNumber, func(c rune) bool { return c >= '0' && c <= '9' || c == '.' })
		return nil
	case c == '\'' || c == '"':
		return l.quoted(byte(c))
	}
	for _, d := range doubles {
		if strings.HasPrefix(l.rest, d) {
			l.add(tokenSign, d)
			l.rest = l.rest[2:]
			return nil
		}
	}
	if !strings.ContainsRune("+-*/%<>=|.,:()[]{}~", c) {
		return fmt.Errorf("%q is not understood", string(c))
	}
	l.add(tokenSign, string(c))
	l.rest = l.rest[width:]
	return nil
}

func (l *lexer) take(kind tokenKind, in func(rune) bool) {
	end := strings.IndexFunc(l.rest, func(c rune) bool { return !in(c) })
	if end < 0 {
		end = len(l.rest)
	}
	l.add(kind, l.rest[:end])
	l.rest = l.rest[end:]
}

// quoted takes a string in quotes.
func (l *lexer) quoted(quote byte) error {
	var b strings.Builder
	for i := 1; i < len(l.rest); i++ {
		switch c := l.rest[i]; {
		case c == quote:
			l.add(tokenString, b.String())
			l.rest = l.rest[i+1:]
			return nil
		case c == '\\' && i+1 < len(l.rest):
			i++
			switch l.rest[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case '\\', '\'', '"':
				b.WriteByte(l.rest[i])
			default:
				return fmt.Errorf("\\%c in a string is not understood", l.rest[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return fmt.Errorf("a string is not closed")
}
