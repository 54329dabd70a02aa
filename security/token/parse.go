package token

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// maxLength is the length of a token at most, in bytes.
const maxLength = 16 << 10

// maxDepth bounds the nesting of claims.
const maxDepth = 16

var (
	errForm   = errors.New("not a signed token in compact form")
	errHeader = errors.New("the header is not acceptable")
	errClaims = errors.New("the claims are not acceptable")
)

// A header describes how a token was signed.
type header struct {
	Algorithm  string          `json:"alg"`
	KeyID      string          `json:"kid"`
	Type       string          `json:"typ"`
	Thumbprint string          `json:"x5t#S256"` // of the certificate whose key signed
	Critical   json.RawMessage `json:"crit"`
}

// An unverified token was taken apart and has the right form. Nothing in it
// is to be trusted.
type unverified struct {
	raw    string
	header header
	issuer string
	sub    string
}

// Looks reports whether a text looks like a token rather than anything else.
func Looks(text string) bool {
	return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2
}

// parse takes a token apart. Everything that two parsers could read differently is
// refused: padding and foreign characters in base64, duplicate members, bytes that
// are not UTF-8.
func parse(raw string) (*unverified, error) {
	if len(raw) > maxLength || strings.Count(raw, ".") != 2 {
		return nil, errForm
	}
	first, rest, _ := strings.Cut(raw, ".")
	second, third, _ := strings.Cut(rest, ".")
	head, err := decodeSegment(first)
	if err != nil {
		return nil, err
	}
	claims, err := decodeSegment(second)
	if err != nil {
		return nil, err
	}
	if _, err := decodeSegment(third); err != nil {
		return nil, err
	}
	t := &unverified{raw: raw}
	if !object(head) || json.Unmarshal(head, &t.header) != nil {
		return nil, errHeader
	}
	if t.header.Critical != nil || t.header.Algorithm == "" || !knownType(t.header.Type) {
		return nil, errHeader
	}
	if caseVariant(head, "alg", "kid", "typ", "crit", "x5t#S256") {
		return nil, errHeader
	}
	if !object(claims) || caseVariant(claims, "iss", "sub", "aud", "exp", "nbf", "iat", "jti", "cnf") {
		return nil, errClaims
	}
	var c struct {
		Issuer  string `json:"iss"`
		Subject string `json:"sub"`
	}
	if json.Unmarshal(claims, &c) != nil {
		return nil, errClaims
	}
	t.issuer, t.sub = c.Issuer, c.Subject
	return t, nil
}

func decodeSegment(s string) ([]byte, error) {
	if s == "" {
		return nil, errForm
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") { // which the decoder skips
		return nil, errForm
	}
	return b, nil
}

// object reports whether data is one JSON object without duplicate members.
func object(data []byte) bool {
	return len(data) > 0 && data[0] == '{' &&
		protocol.CheckJSON(data, protocol.Limits{MaxBytes: maxLength, MaxDepth: maxDepth}) == nil
}

// caseVariant reports whether an object has a member that is one of the names
// but for its case, which encoding/json would take for it.
func caseVariant(data []byte, names ...string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return true
	}
	for member := range members {
		for _, name := range names {
			if member != name && strings.EqualFold(member, name) {
				return true
			}
		}
	}
	return false
}

// knownType reports whether typ names a token that identifies a principal.
func knownType(typ string) bool {
	typ = strings.TrimPrefix(strings.ToLower(typ), "application/")
	return typ == "" || typ == "jwt" || typ == "at+jwt"
}
