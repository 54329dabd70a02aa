package pki

import (
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"slices"
	"sync"
	"time"
)

const (
	listLife  = 24 * time.Hour // until nextUpdate
	listRenew = 6 * time.Hour  // how old a list may get although nothing changed
)

// lists are the revocation lists of the authorities (RFC 5280 §5), each signed
// by its own. The bridge itself needs none of them: it looks into its table.
type lists struct {
	service *Service

	mu      sync.Mutex
	version uint64 // counts changes
	made    map[Authority]*revocationList
}

type revocationList struct {
	der     []byte
	at      time.Time
	version uint64
}

func newLists(s *Service) *lists {
	return &lists{service: s, made: make(map[Authority]*revocationList)}
}

// outdate has the lists made anew when they are asked for next.
func (l *lists) outdate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
}

// get is the list of an authority, in DER, and when it was made.
func (l *lists) get(a Authority) ([]byte, time.Time, error) {
	now := l.service.opts.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if made := l.made[a]; made != nil && made.version == l.version && now.Sub(made.at) < listRenew {
		return made.der, made.at, nil
	}
	der, err := l.service.makeList(a, now)
	if err != nil {
		return nil, time.Time{}, err
	}
	l.made[a] = &revocationList{der: der, at: now, version: l.version}
	return der, now, nil
}

// makeList signs the list of what an authority has revoked and what would
// still be valid otherwise.
func (s *Service) makeList(a Authority, now time.Time) ([]byte, error) {
	from := s.cas.grants[a]
	if from.signer == nil {
		return nil, from.sealed()
	}
	var revoked []x509.RevocationListEntry
	for _, e := range s.index.all() {
		if e.Authority == a && e.Revoked != nil && !now.After(e.notAfter) {
			revoked = append(revoked, x509.RevocationListEntry{
				SerialNumber: number(e.Serial), RevocationTime: e.Revoked.At, ReasonCode: e.Revoked.Code,
			})
		}
	}
	slices.SortFunc(revoked, func(a, b x509.RevocationListEntry) int { return a.SerialNumber.Cmp(b.SerialNumber) })
	return x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number:                    big.NewInt(now.UnixNano()), // grows, on whichever bridge it is made
		ThisUpdate:                now,
		NextUpdate:                earlier(now.Add(listLife), from.cert.NotAfter),
		RevokedCertificateEntries: revoked,
	}, from.cert, from.signer)
}
