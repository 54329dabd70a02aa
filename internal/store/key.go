package store

import (
	"fmt"
	"strings"
)

// maxSubject bounds the encoded subject of a key, in bytes. NATS takes 4096
// for a whole protocol line.
const maxSubject = 3500

const upperHex = "0123456789ABCDEF"

// plain reports whether a byte of a key stands for itself in a subject. The
// dot does not: it would split the key into tokens, and empty ones are
// invalid.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '-' || c == '_' || c == '/'
}

// encodeKey turns a key into one token of a subject: any byte that is not
// plain becomes =XX.
func encodeKey(key string) string {
	escapes := 0
	for i := range len(key) {
		if !plain(key[i]) {
			escapes++
		}
	}
	if escapes == 0 {
		return key
	}
	var b strings.Builder
	b.Grow(len(key) + 2*escapes)
	for i := range len(key) {
		if c := key[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('=')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}

// decodeKey is the inverse of encodeKey. It accepts nothing that encodeKey
// does not produce, so that no two subjects stand for one key.
func decodeKey(token string) (string, error) {
	if token == "" {
		return "", fmt.Errorf("empty key")
	}
	escaped := strings.IndexByte(token, '=') >= 0
	if !escaped {
		for i := range len(token) {
			if !plain(token[i]) {
				return "", fmt.Errorf("byte %q at %d is not escaped", token[i], i)
			}
		}
		return strings.Clone(token), nil // token is part of a longer subject
	}
	var b strings.Builder
	b.Grow(len(token))
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c != '=' {
			if !plain(c) {
				return "", fmt.Errorf("byte %q at %d is not escaped", c, i)
			}
			b.WriteByte(c)
			continue
		}
		if i+2 >= len(token) {
			return "", fmt.Errorf("escape at %d is cut off", i)
		}
		hi, lo := strings.IndexByte(upperHex, token[i+1]), strings.IndexByte(upperHex, token[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("escape at %d is not =XX in upper case", i)
		}
		c = byte(hi<<4 | lo)
		if plain(c) {
			return "", fmt.Errorf("escape at %d stands for %q, which needs none", i, c)
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String(), nil
}
