package token

import (
	"crypto/sha256"
	"sync"
	"time"
)

// Bounds of the memory for proofs.
const (
	maxProofs        = 100_000
	maxProofsPerCert = 1_000
)

// A proofID is the certificate and the jti of a proof, hashed.
type proofID [32]byte

// replays remembers which proofs were used, until they would have expired.
type replays struct {
	mu    sync.Mutex
	used  map[proofID]proof
	count map[[32]byte]int // by certificate
	swept time.Time
}

type proof struct {
	cert    [32]byte
	expires time.Time
}

func newReplays() *replays {
	return &replays{used: make(map[proofID]proof), count: make(map[[32]byte]int)}
}

// A proofUse is the result of using a proof.
type proofUse int

const (
	fresh proofUse = iota
	replayed
	tooMany // to be remembered, and so to be accepted
)

// use notes that a proof was used.
func (r *replays) use(cert [32]byte, jti string, expires, now time.Time) proofUse {
	id := proofID(sha256.Sum256(append(cert[:], jti...)))
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.used[id]; ok {
		return replayed
	}
	if len(r.used) >= maxProofs || r.count[cert] >= maxProofsPerCert {
		r.sweep(now, time.Second)
		if len(r.used) >= maxProofs || r.count[cert] >= maxProofsPerCert {
			return tooMany
		}
	}
	r.sweep(now, time.Minute)
	r.used[id] = proof{cert, expires}
	r.count[cert]++
	return fresh
}

// sweep forgets proofs that have expired, at most once an interval.
func (r *replays) sweep(now time.Time, interval time.Duration) {
	if now.Sub(r.swept) < interval {
		return
	}
	r.swept = now
	for id, p := range r.used {
		if now.After(p.expires) {
			delete(r.used, id)
			if r.count[p.cert]--; r.count[p.cert] == 0 {
				delete(r.count, p.cert)
			}
		}
	}
}
