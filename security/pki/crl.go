package pki

import (
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
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
	version uint64                     // counts changes
	made    map[string]*revocationList // by name
}

type revocationList struct {
	der     []byte
	at      time.Time
	version uint64
}

func newLists(s *Service) *lists {
	return &lists{service: s, made: make(map[string]*revocationList)}
}

// outdate has the lists made anew when they are asked for next.
func (l *lists) outdate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
}

// listName is the name of the list of an authority, by the number of those that it was
// made with.
func listName(a Authority, set int) string {
	if set <= firstSet {
		return string(a)
	}
	return string(a) + "." + strconv.Itoa(set)
}

// listed is the authority whose list has a name, nil if there is none.
func (h *hierarchy) listed(name string) *issuer {
	for _, set := range h.sets {
		for a, i := range set.grants {
			if listName(a, set.number) == name {
				return i
			}
		}
	}
	return nil
}

// get is the list of an authority, in DER, and when it was made.
func (l *lists) get(name string) ([]byte, time.Time, error) {
	now := l.service.opts.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if made := l.made[name]; made != nil && made.version == l.version && now.Sub(made.at) < listRenew {
		return made.der, made.at, nil
	}
	der, err := l.service.makeList(name, now)
	if err != nil {
		return nil, time.Time{}, err
	}
	l.made[name] = &revocationList{der: der, at: now, version: l.version}
	return der, now, nil
}

// makeList signs the list of the certificates of an authority that are revoked and
// not expired.
func (s *Service) makeList(name string, now time.Time) ([]byte, error) {
	from := s.cas().listed(name)
	if from == nil {
		return nil, protocol.Errorf(protocol.NotFound, "there is no such list")
	}
	if from.signer == nil {
		return nil, from.sealed()
	}
	var revoked []x509.RevocationListEntry
	for _, e := range s.index.all() {
		if e.from.name == from.name && e.from.set == from.set && e.Revoked != nil && !now.After(e.notAfter) {
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
