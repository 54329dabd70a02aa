package pki

import (
	"container/list"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

const (
	maxProof     = 4 << 10         // bytes
	proofLife    = 5 * time.Minute // after iat
	proofSkew    = time.Minute     // before it
	maxProofs    = 1 << 16         // remembered against replays
	proofPending = "a proof of possession is needed: mutual TLS with the certificate, a token bound to it, or extension.proof"
)

// proofClaims are the claims of extension.proof (docs/protocol.md#certificates): a
// JWT signed with the certificate's key, made for one request.
type proofClaims struct {
	jwt.RegisteredClaims
	Command string `json:"cmd"`
	Params  string `json:"ph"` // SHA-256 of the raw params, base64url or hex
}

// checkProof checks the proof of possession in a request's extension.
func (s *Service) checkProof(call *commands.Call, e *entry, subject string) error {
	text, err := proofIn(call.Extension)
	if err != nil {
		return proofFailed(e, err)
	}
	claims, err := s.parseProof(text, e)
	if err != nil {
		return proofFailed(e, err)
	}
	sum := sha256.Sum256(call.RawParams())
	now := s.opts.Now()
	switch {
	case claims.Subject != subject:
		err = errors.New("the proof is about another skill (sub)")
	case claims.ID != call.RequestID:
		err = errors.New("the proof was made for another request (jti)")
	case claims.Command != call.Command:
		err = errors.New("the proof was made for another command (cmd)")
	case !sameHash(claims.Params, sum):
		err = errors.New("the proof was made for other params (ph)")
	case claims.IssuedAt == nil || now.Sub(claims.IssuedAt.Time) > proofLife || claims.IssuedAt.Sub(now) > proofSkew:
		err = errors.New("the proof is too old, or from the future (iat)")
	}
	if err != nil {
		return proofFailed(e, err)
	}
	return s.proofs.use(proofID{e.Serial, claims.ID}, call.Principal.Party(), claims.IssuedAt.Time, now)
}

// parseProof checks the signature with the certificate's key and nothing else:
// the algorithm is the key's, not the token's choice.
func (s *Service) parseProof(text string, e *entry) (*proofClaims, error) {
	key := e.leaf().PublicKey
	claims := new(proofClaims)
	_, err := jwt.NewParser(
		jwt.WithValidMethods(algorithms(key)),
		jwt.WithAudience(s.opts.BridgeID),
		jwt.WithTimeFunc(s.opts.Now),
		jwt.WithStrictDecoding(),
	).ParseWithClaims(text, claims, func(*jwt.Token) (any, error) { return key, nil })
	switch {
	case err == nil:
		return claims, nil
	case errors.Is(err, jwt.ErrTokenInvalidAudience), errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return nil, errors.New("the proof was made for another bridge (aud)")
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return nil, errors.New("the proof was not signed with the certificate's key")
	}
	return nil, errors.New("the proof is not a valid JWT")
}

// algorithms are those a key may sign with.
func algorithms(key any) []string {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve.Params().BitSize == 384 {
			return []string{"ES384"}
		}
		return []string{"ES256"}
	case ed25519.PublicKey:
		return []string{"EdDSA"}
	case *rsa.PublicKey:
		return []string{"PS256", "RS256"}
	}
	return nil
}

// proofIn takes the proof out of a request's extension.
func proofIn(extension json.RawMessage) (string, error) {
	var fields struct {
		Proof *string `json:"proof"`
	}
	if len(extension) == 0 {
		return "", errors.New(proofPending)
	}
	switch err := json.Unmarshal(extension, &fields); {
	case err != nil:
		return "", errors.New("extension.proof must be a string")
	case fields.Proof == nil:
		return "", errors.New(proofPending)
	case len(*fields.Proof) > maxProof:
		return "", errors.New("extension.proof is too long")
	}
	return *fields.Proof, nil
}

func sameHash(claimed string, sum [sha256.Size]byte) bool {
	given, err := base64.RawURLEncoding.DecodeString(claimed)
	if len(claimed) == hex.EncodedLen(len(sum)) {
		given, err = hex.DecodeString(claimed)
	}
	return err == nil && subtle.ConstantTimeCompare(given, sum[:]) == 1
}

func proofFailed(e *entry, reason error) error {
	return protocol.Errorf(protocol.ProofFailed, "%s", reason).With("serial", string(e.Serial)).With("reason", reason.Error())
}

// A proofID names a proof: its jti, which the holder of one key chose.
type proofID struct {
	serial protocol.Serial
	jti    string
}

// proofs remembers the used proofs, for as long as one is good. The
// same principal may repeat a request, which the router answers as it did before;
// any other principal has overheard it.
type proofs struct {
	began time.Time // proofs from before may have been used then

	mu    sync.Mutex
	used  map[proofID]*list.Element
	order list.List // of usedProof, oldest first
}

type usedProof struct {
	id      proofID
	by      protocol.Party
	expires time.Time
}

func newProofs(now time.Time) *proofs {
	return &proofs{began: now.Truncate(time.Second), used: make(map[proofID]*list.Element)}
}

// use notes the use of a proof, or refuses it.
func (p *proofs) use(id proofID, by protocol.Party, issued, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for first := p.order.Front(); first != nil && first.Value.(usedProof).expires.Before(now); first = p.order.Front() {
		delete(p.used, first.Value.(usedProof).id)
		p.order.Remove(first)
	}
	if at, ok := p.used[id]; ok {
		if at.Value.(usedProof).by == by {
			return nil
		}
		return protocol.Errorf(protocol.ProofFailed, "the proof was used before").With("reason", "the proof was used before (jti)")
	}
	if issued.Before(p.began) {
		return protocol.Errorf(protocol.ProofFailed, "the proof is older than the bridge's memory: make a new one").
			With("reason", "the proof was made before the bridge started (iat)")
	}
	if len(p.used) >= maxProofs {
		return protocol.BusyFor(time.Second, "too many proofs of possession at once")
	}
	// Kept until a proof with any accepted iat would be too old: so they expire in order
	// of use.
	p.used[id] = p.order.PushBack(usedProof{id, by, now.Add(proofLife + proofSkew)})
	return nil
}
