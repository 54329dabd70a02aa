package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/pki"
)

// CAFile is the file in the data folder with the root certificate.
const CAFile = pki.CAFile

// pkiTables are the tables of package pki.
type pkiTables struct {
	store        *store.Store
	authorities  *store.Table[pki.Hierarchy]
	certificates *store.Table[pki.Certificate]
	requests     *store.Table[pki.Request]
	tokens       *store.Table[pki.Token]
}

func newPKITables(s *store.Store) *pkiTables {
	return &pkiTables{
		store:        s,
		authorities:  store.NewTable[pki.Hierarchy](s, "cert-authority"),
		certificates: store.NewTable[pki.Certificate](s, "cert"),
		requests:     store.NewTable[pki.Request](s, "cert-request"),
		tokens:       store.NewTable[pki.Token](s, "cert-token"),
	}
}

// issue stores a certificate and what it is issued for in one atomic change.
func (t *pkiTables) issue(ctx context.Context, c *pki.Certificate, f pki.Claimed) error {
	create := t.certificates.CreateOp(string(c.Serial), c)
	switch {
	case f.Request != nil:
		key := string(f.Request.Scope.Space) + "/" + f.Request.ID
		return t.store.Atomic(ctx, create, t.requests.PutOp(key, f.Request, f.Revision))
	case f.Token != nil:
		return t.store.Atomic(ctx, create, t.tokens.PutOp(f.Token.ID, f.Token, f.Revision))
	}
	return t.store.Atomic(ctx, create)
}

// openPKI opens the certificate authorities. The store is loaded.
func (a *App) openPKI(ctx context.Context, tables *pkiTables, mqtt *mqttdoor.Clients) error {
	passphrase, err := a.config.PKI.ReadPassphrase()
	if err != nil {
		return err
	}
	a.pki, err = pki.Open(ctx, pki.Options{
		Authorities:  tables.authorities,
		Certificates: tables.certificates,
		Requests:     tables.requests,
		Tokens:       tables.tokens,
		Issue:        tables.issue,
		Dir:          a.config.Data,
		Passphrase:   passphrase,
		KeyType:      pki.KeyType(a.config.PKI.KeyType),
		BridgeID:     a.config.ID,
		Names:        append(a.config.Hosts[:len(a.config.Hosts):len(a.config.Hosts)], a.config.PKI.Names...),
		PublicURL:    a.config.PKI.PublicURL,
		Parties:      a.parties,
		Publish:      securityEvents(mqtt, a.config.ID, a.log),
		Audit:        a.audit,
		Failed: func(ctx context.Context, from netip.Addr) error { // the authenticator comes later
			return a.authenticator.Failed(ctx, from)
		},
		Log:        a.log,
		Registerer: a.metrics,
	})
	if err != nil {
		return err
	}
	a.parties.certificates = a.pki
	return nil
}

// runPKI has the end of a certificate bite: everything else runs already.
func (a *App) runPKI(agents *registry.Service) {
	a.pki.OnEnd(func(e pki.Ended) { a.certificateEnded(agents, e) })
	a.run("certificates", a.pki.Run)
}

// certificateEnded ends everything that stood on a certificate: the work of
// its holder's agents, its calls, and its connections by whatever door.
func (a *App) certificateEnded(agents *registry.Service, e pki.Ended) {
	suspended := agents.CertificateEnded(e.Serial, e.Err()) // before presence says that they merely went
	a.endCredentials(audit.Entry{
		Principal: e.Principal, Kind: e.Kind, Space: e.Space, CertSerial: e.Serial, Reason: e.Text,
	})
	a.log.Info("suspended what agents did with a certificate", "serial", e.Serial, "reason", e.Reason, "agents", suspended)
}

// withPKI serves what package pki has for everybody in front of the API. What
// can be read there is public under whatever name; only what changes something
// is guarded against pages of other sites.
func (a *App) withPKI(next http.Handler) http.Handler {
	public := a.pki.Handler()
	guarded := a.api.Guard().Wrap(public)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, "/pki/"):
			next.ServeHTTP(w, r)
		case r.Method == http.MethodGet || r.Method == http.MethodHead:
			public.ServeHTTP(w, r)
		default:
			guarded.ServeHTTP(w, r)
		}
	})
}

// securityEvents tells operators of what happens to certificates.
func securityEvents(mqtt *mqttdoor.Clients, bridgeID string, log *slog.Logger) func(name string, data any) {
	var seq atomic.Uint64
	return func(name string, data any) {
		raw, err := json.Marshal(data)
		if err != nil {
			return
		}
		e := protocol.Event{
			Version: protocol.Version, ID: protocol.NewID(), Timestamp: time.Now().UnixMilli(), Name: name,
			Seq: seq.Add(1), Data: raw, Metadata: protocol.Metadata{SenderID: bridgeID},
		}
		if _, err := mqtt.Publish(protocol.Administrators(), protocol.Message{
			Topic: mqtt.Topics().Event("security"), Payload: e.Append(nil), ContentType: protocol.ContentJSON,
		}); err != nil {
			log.Warn("an event of certificates is not published", "event", name, "error", err)
		}
	}
}

// DescribeCertificate says as JSON what a certificate in PEM says about
// itself.
func DescribeCertificate(text []byte) (json.RawMessage, error) {
	described, err := pki.Describe(text)
	if err != nil {
		return nil, err
	}
	return json.Marshal(described)
}
