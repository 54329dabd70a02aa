package pki

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/keyfile"
	"github.com/aibridge/aibridge/security/masterkey"
)

// CAFile is the file in the data folder with the root certificate, for clients
// to trust.
const CAFile = "ca.pem"

// Options configure a [Service]. The tables, Issue and Dir are needed; other
// zero fields mean the defaults.
type Options struct {
	Authorities  records.Table[Hierarchy]
	Certificates records.Table[Certificate]
	Requests     records.Table[Request]
	Tokens       records.Table[Token]
	// Issue creates a certificate and, in the same change, stores the
	// entitlement that it was issued for. It fails with 3002 if the serial is
	// taken and with 3003 if the entitlement has changed.
	Issue func(ctx context.Context, c *Certificate, f Entitlement) error

	Dir        string                   // for CAFile
	KeyFile    *masterkey.File          // seals the authorities' keys unless a passphrase does
	Passphrase []byte                   // seals the authorities' keys; without one KeyFile does
	KeyType    KeyType                  // of the authorities' keys when they are made, default ECDSA
	Signers    map[string]crypto.Signer // keys held elsewhere, by authority: root, server, operator, appstore, enterprise

	BridgeID string   // audience of proofs of possession, default "aibridge"
	Names    []string // host names and addresses of the server certificate, besides loopback's
	// PublicURL is the address at which clients find the bridge's HTTP. With it
	// certificates have the address of their revocation list.
	PublicURL string

	// Parties are the holders of other credentials, and the registered agents and skills.
	// Nil is none.
	Parties Parties

	// Publish tells an event of family security, "cert.revoked". It must not block.
	// Nil publishes nothing.
	Publish func(name string, data any)
	Audit   audit.Recorder // of events outside of commands; nil records nothing

	// Failed notes that a client at an address showed a wrong claim token, and
	// delays the answer; its error, if any, is the answer. It may be nil.
	Failed func(ctx context.Context, from netip.Addr) error

	Log        *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer // nil keeps the metrics to itself

	scryptLogN int // tests make it small
}

func (o *Options) setDefaults() error {
	if o.Authorities == nil || o.Certificates == nil || o.Requests == nil || o.Tokens == nil || o.Issue == nil || o.Dir == "" || o.KeyFile == nil {
		return errors.New("pki: tables, Issue, Dir and KeyFile are needed")
	}
	o.BridgeID = cmp.Or(o.BridgeID, "aibridge")
	o.KeyType = cmp.Or(o.KeyType, ECDSA)
	if o.Parties == nil {
		o.Parties = nobodyElse{}
	}
	if o.Failed == nil {
		o.Failed = func(context.Context, netip.Addr) error { return nil }
	}
	if o.Publish == nil {
		o.Publish = func(string, any) {}
	}
	if o.Audit == nil {
		o.Audit = audit.Discard{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}

// A Service is the authorities of a bridge. Its methods may be called at the
// same time by many goroutines.
type Service struct {
	opts     Options
	seal     *sealer
	loaded   atomic.Pointer[loadedHierarchy]
	stored   atomic.Uint64 // counts changes of the authorities
	loading  sync.Mutex
	index    *index
	watch    *watch
	proofs   *proofs
	server   *serverCertificate
	lists    *lists
	renewing sync.Mutex      // held while one is renewed or revoked: each looks for renewals
	enrol    *fair.Semaphore // places for enrolments under way, shared by addresses

	mu    sync.RWMutex
	onEnd []func(Ended)
}

// enrolments is the number of devices that may enrol themselves at the same moment.
const enrolments = 64

// Open opens the authorities, and makes them if there are none yet. The tables
// must be loaded. [Service.Run] comes after it.
func Open(ctx context.Context, o Options) (*Service, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	seal := newSealer(&o)
	opened, err := openHierarchy(ctx, &o, seal)
	if err != nil {
		return nil, fmt.Errorf("open the certificate authorities: %w", err)
	}
	s := &Service{
		opts:   o,
		seal:   seal,
		index:  newIndex(),
		watch:  newWatch(),
		proofs: newProofs(o.Now()),
		enrol:  fair.New(fair.Options{What: "enrolments", Capacity: enrolments}),
	}
	s.server, s.lists = newServerCertificate(s), newLists(s)
	s.loaded.Store(&loadedHierarchy{hierarchy: opened, pool: opened.pool()})
	o.Authorities.OnChange(func(string, *Hierarchy, *Hierarchy) { s.stored.Add(1) })
	o.Certificates.OnChange(s.changed)
	s.watch.begin()
	if err := s.writeRoot(); err != nil {
		return nil, fmt.Errorf("write %s: %w", CAFile, err)
	}
	return s, s.registerMetrics(o.Registerer)
}

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(certRequest, s.Request),
		commands.New(certApprove, s.Approve),
		commands.New(certReject, s.Reject),
		commands.New(certIssue, s.Issue),
		commands.New(certRenew, s.Renew),
		commands.New(certRevoke, s.Revoke),
		commands.New(certList, s.List),
		commands.New(certGet, s.Get),
		commands.New(certTokenCreate, s.CreateToken),
	}
}

// Root is the root certificate in PEM, which clients trust.
func (s *Service) Root() []byte { return encodePEM(s.cas().root.cert.Raw) }

// Pool holds the authorities that client certificates must chain to. The root
// is not among them: certificates that it signs are for the bridge's own use, and
// identify no client.
func (s *Service) Pool() *x509.CertPool {
	s.cas()
	return s.loaded.Load().pool
}

// ServerCertificate is the bridge's own, for loopback names and those that are
// configured; it fits [tls.Config.GetCertificate]. It is made when first asked
// for and again before it ends.
func (s *Service) ServerCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.server.get(s.opts.Now())
}

// OnEnd has f called for every certificate that is revoked or expires from now
// on, within a second and one after the other. f should not take long.
func (s *Service) OnEnd(f func(Ended)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onEnd = append(s.onEnd, f)
}

func encodePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// writeRoot puts the root certificate into its file, unless it is there: a
// bridge can start on a full disk.
func (s *Service) writeRoot() error {
	path, root := filepath.Join(s.opts.Dir, CAFile), s.Root()
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, root) {
		return nil
	}
	return keyfile.WriteMode(path, root, 0o644)
}
