package store

import (
	"regexp"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestKeysAreEncoded(t *testing.T) {
	tests := []struct{ key, token string }{
		{"default/agent-7_x", "default/agent-7_x"},
		{"a.b", "a=2Eb"},
		{".", "=2E"},
		{"a=2Eb", "a=3D2Eb"},
		{"a b*>", "a=20b=2A=3E"},
		{"räume", "r=C3=A4ume"},
		{"\x00\xff", "=00=FF"},
	}
	for _, test := range tests {
		if got := encodeKey(test.key); got != test.token {
			t.Errorf("encodeKey(%q) = %q, want %q", test.key, got, test.token)
		}
		if got, err := decodeKey(test.token); err != nil || got != test.key {
			t.Errorf("decodeKey(%q) = %q, %v, want %q", test.token, got, err, test.key)
		}
	}
}

func TestTokensThatNobodyEncodedAreRefused(t *testing.T) {
	for _, token := range []string{"", "=", "=2", "a=", "=2e", "=GG", "=61", "a.b", "a b", "a=2E.b", "ä", "=C3ä"} {
		if key, err := decodeKey(token); err == nil {
			t.Errorf("decodeKey(%q) = %q", token, key)
		}
	}
}

func TestKeysThatDoNotFitAreRefused(t *testing.T) {
	_, things := fresh(t)
	_, err := things.Put(t.Context(), strings.Repeat("ü", 1000), &thing{})
	wantCode(t, err, protocol.InvalidParameter)
	if _, err := things.Put(t.Context(), "", &thing{}); err == nil {
		t.Error("the empty key was stored")
	}
	// The longest identifiers there are, two in a key.
	long := strings.Repeat("\U0010FFFF", 64)
	if _, err := things.Put(t.Context(), long+"/"+long, &thing{}); err != nil {
		t.Error(err)
	}
}

var tokenRule = regexp.MustCompile(`^[-/_=a-zA-Z0-9]+$`)

func FuzzKey(f *testing.F) {
	for _, s := range []string{"default/agent-7", "a.b", "a=2Eb", "=2E", "räume", "\x00", "=C3=A4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if s != "" {
			token := encodeKey(s)
			if !tokenRule.MatchString(token) {
				t.Errorf("encodeKey(%q) = %q is not a token", s, token)
			}
			if key, err := decodeKey(token); err != nil || key != s {
				t.Errorf("%q became %q, %v", s, key, err)
			}
		}
		if key, err := decodeKey(s); err == nil && encodeKey(key) != s {
			t.Errorf("%q and %q both stand for %q", s, encodeKey(key), key)
		}
	})
}
