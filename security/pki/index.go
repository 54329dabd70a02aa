package pki

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An index finds certificates by serial, fingerprint and holder. It follows the
// table.
type index struct {
	mu       sync.RWMutex
	bySerial map[protocol.Serial]*entry
	byThumb  map[[32]byte]*entry
	renewals map[protocol.Serial][]protocol.Serial
	byHolder map[protocol.Party]map[protocol.Serial]*entry
}

// An entry is one certificate. It is never changed.
type entry struct {
	*Certificate
	scope     *Scope
	principal *protocol.Principal
	thumb     [32]byte
	notBefore time.Time
	notAfter  time.Time
	from      *issuer // that has signed it
}

func newIndex() *index {
	return &index{
		bySerial: make(map[protocol.Serial]*entry),
		byThumb:  make(map[[32]byte]*entry),
		renewals: make(map[protocol.Serial][]protocol.Serial),
		byHolder: make(map[protocol.Party]map[protocol.Serial]*entry),
	}
}

// newEntry reads a stored certificate. One that differs from its record is ignored.
func newEntry(c *Certificate, by *hierarchy) (*entry, error) {
	cert, err := x509.ParseCertificate(c.DER)
	if err != nil {
		return nil, err
	}
	if serial, ok := serialOf(cert.SerialNumber); !ok || serial != c.Serial {
		return nil, fmt.Errorf("it has the serial %x", cert.SerialNumber)
	}
	from := by.signed(c.Authority, cert.AuthorityKeyId)
	if from == nil {
		return nil, fmt.Errorf("there is no authority %q", c.Authority)
	}
	if !bytes.Equal(cert.RawIssuer, from.cert.RawSubject) || !bytes.Equal(cert.AuthorityKeyId, from.cert.SubjectKeyId) {
		return nil, fmt.Errorf("it was not signed by authority %s", c.Authority) // the signature itself is checked in handshakes
	}
	scope, err := scopeOf(cert)
	if err != nil {
		return nil, err
	}
	return &entry{
		Certificate: c,
		scope:       scope,
		principal:   scope.principal(c, cert),
		thumb:       fingerprint(c.DER),
		notBefore:   cert.NotBefore,
		notAfter:    cert.NotAfter,
		from:        from,
	}, nil
}

// leaf is the certificate itself.
func (e *entry) leaf() *x509.Certificate {
	cert, err := x509.ParseCertificate(e.DER)
	if err != nil { // it was read before
		panic(err)
	}
	return cert
}

// put adds or replaces an entry and returns the old one.
func (x *index) put(e *entry) (old *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old = x.bySerial[e.Serial]
	if old != nil {
		delete(x.byThumb, old.thumb)
		x.leave(old)
	} else if e.Renews != "" {
		x.renewals[e.Renews] = append(x.renewals[e.Renews], e.Serial)
	}
	x.bySerial[e.Serial], x.byThumb[e.thumb] = e, e
	holder := e.principal.Party()
	if x.byHolder[holder] == nil {
		x.byHolder[holder] = make(map[protocol.Serial]*entry, 1)
	}
	x.byHolder[holder][e.Serial] = e
	return old
}

// leave takes an entry from its holder.
func (x *index) leave(e *entry) {
	holder := e.principal.Party()
	if delete(x.byHolder[holder], e.Serial); len(x.byHolder[holder]) == 0 {
		delete(x.byHolder, holder)
	}
}

// heldBy lists the entries of a holder, in no order.
func (x *index) heldBy(holder protocol.Party) []*entry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Values(x.byHolder[holder]))
}

// remove forgets a certificate and returns its entry.
func (x *index) remove(serial protocol.Serial) (old *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old = x.bySerial[serial]; old == nil {
		return nil
	}
	delete(x.bySerial, serial)
	delete(x.byThumb, old.thumb)
	delete(x.renewals, serial)
	x.leave(old)
	return old
}

func (x *index) find(serial protocol.Serial) *entry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.bySerial[serial]
}

func (x *index) findThumb(thumb [32]byte) *entry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.byThumb[thumb]
}

// all lists every entry, in no order.
func (x *index) all() []*entry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	list := make([]*entry, 0, len(x.bySerial))
	for _, e := range x.bySerial {
		list = append(list, e)
	}
	return list
}

// renewedFrom lists the renewals of a certificate, their renewals, and so
// on, nearest first.
func (x *index) renewedFrom(serial protocol.Serial) (list []*entry) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	seen := map[protocol.Serial]bool{serial: true}
	for next := slices.Clone(x.renewals[serial]); len(next) > 0; next = next[1:] {
		e := x.bySerial[next[0]]
		if e == nil || seen[e.Serial] {
			continue
		}
		seen[e.Serial] = true
		list = append(list, e)
		next = append(next, x.renewals[e.Serial]...)
	}
	return list
}

// changed follows the table of certificates.
func (s *Service) changed(serial string, _, new *Certificate) {
	if new == nil {
		s.index.remove(protocol.Serial(serial))
		s.lists.outdate()
		return
	}
	e, err := newEntry(new, s.cas())
	if err != nil {
		s.opts.Log.Error("a stored certificate does not count", "serial", serial, "error", err)
		s.index.remove(protocol.Serial(serial))
		return
	}
	old := s.index.put(e)
	if e.Revoked != nil && (old == nil || old.Revoked == nil) {
		s.lists.outdate()
		s.watch.revoked(e)
	}
	if old == nil {
		s.watch.schedule(e, s.opts.Now())
	}
}
