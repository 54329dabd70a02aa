package pki

import (
	"crypto/x509"
)

// A loadedHierarchy is the authorities after so many changes of their records.
type loadedHierarchy struct {
	*hierarchy
	changes uint64
	pool    *x509.CertPool
}

// cas are the authorities as their records have them. A certificate is never known before
// its authority: both are in one log, in this order.
func (s *Service) cas() *hierarchy {
	if l := s.loaded.Load(); l.changes == s.stored.Load() {
		return l.hierarchy
	}
	if err := s.load(); err != nil {
		s.opts.Log.Error("the certificate authorities as they are stored cannot be used: those before are", "error", err)
	}
	return s.loaded.Load().hierarchy
}

// load opens the authorities, unless it was done since they changed.
func (s *Service) load() error {
	s.loading.Lock()
	defer s.loading.Unlock()
	changes, before := s.stored.Load(), s.loaded.Load()
	if before.changes == changes {
		return nil
	}
	h, err := loadHierarchy(&s.opts, s.seal)
	if err != nil { // it is not tried again before the next change
		s.loaded.Store(&loadedHierarchy{before.hierarchy, changes, before.pool})
		return err
	}
	s.loaded.Store(&loadedHierarchy{h, changes, h.pool()})
	return nil
}
