package pki

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/httpbody"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// maxEnrolment bounds the body of an enrolment, in bytes.
const maxEnrolment = 32 << 10

// Handler serves everything public — the root certificate at
// /pki/ca.pem, the revocation list of an authority at /pki/{authority}.crl —
// and lets devices with nothing but a claim token enrol themselves by POST to
// /pki/enroll.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pki/ca.pem", s.serveRoot)
	mux.HandleFunc("GET /pki/{list}", s.serveList)
	mux.HandleFunc("POST /pki/enroll", s.serveEnrolment)
	return mux
}

func (s *Service) serveRoot(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-pem-file")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(s.Root())
}

func (s *Service) serveList(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutSuffix(r.PathValue("list"), ".crl")
	if !ok {
		writeError(w, protocol.Errorf(protocol.NotFound, "there is no such list"))
		return
	}
	der, at, err := s.lists.get(name)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/pkix-crl")
	w.Header().Set("Cache-Control", "public, max-age=60")
	w.Header().Set("Last-Modified", at.UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Length", fmt.Sprint(len(der)))
	_, _ = w.Write(der)
}

// serveEnrolment takes {"token":…,"csr":…} and answers like cert.request.
func (s *Service) serveEnrolment(w http.ResponseWriter, r *http.Request) {
	from := addressOf(r)
	party := fair.Party{Principal: from.String()}
	if err := s.enrol.TryAcquire(party, 1); err != nil {
		writeError(w, err)
		return
	}
	defer s.enrol.Release(party, 1)
	var p struct {
		Token string `json:"token"`
		CSR   string `json:"csr"`
	}
	body := json.NewDecoder(httpbody.New(w, r, maxEnrolment))
	body.DisallowUnknownFields()
	if err := body.Decode(&p); err != nil || body.More() {
		writeError(w, protocol.Errorf(protocol.MalformedEnvelope, "the body must be an object with token and csr"))
		return
	}
	if _, _, err := s.token(p.Token); err != nil { // before anything costs
		s.noteEnrolment(r, "", err)
		if wait := s.opts.Failed(r.Context(), from); wait != nil {
			err = wait
		}
		writeError(w, err)
		return
	}
	csr, err := parseCSR(p.CSR)
	if err != nil {
		writeError(w, err)
		return
	}
	result, err := s.redeem(r.Context(), p.Token, csr)
	if err != nil {
		s.noteEnrolment(r, "", err)
		writeError(w, err)
		return
	}
	s.noteEnrolment(r, result.Serial, nil)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(result)
}

// noteEnrolment records how an enrolment ended: no principal was authenticated but
// by the token.
func (s *Service) noteEnrolment(r *http.Request, serial protocol.Serial, err error) {
	e := audit.Entry{Event: audit.CertificateIssued, Code: audit.OK, Method: "token", Door: "http", Address: addressOf(r), Resource: "certificate/" + string(serial)}
	if err != nil {
		e.Event, e.Code, e.Resource, e.Reason = audit.LoginFailed, string(protocol.CodeOf(err)), "", "enrolment refused"
	}
	s.opts.Audit.Record(r.Context(), e)
}

// addressOf is the address that a request came from, the zero Addr if that is not known.
func addressOf(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return from.Addr().Unmap()
}

func writeError(w http.ResponseWriter, err error) {
	e := protocol.AsError(err)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(e.Code.HTTPStatus())
	_, _ = w.Write(fmt.Appendf(nil, `{"error":%s}`+"\n", e.Append(nil)))
}
