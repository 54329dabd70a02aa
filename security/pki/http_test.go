package pki

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func get(w *world, method, path, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	answer := httptest.NewRecorder()
	w.Handler().ServeHTTP(answer, r)
	return answer
}

func listOf(w *world, a Authority) *x509.RevocationList {
	w.t.Helper()
	answer := get(w, "GET", "/pki/"+string(a)+".crl", "")
	if answer.Code != http.StatusOK || answer.Header().Get("Content-Type") != "application/pkix-crl" {
		w.t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	list, err := x509.ParseRevocationList(answer.Body.Bytes())
	if err != nil {
		w.t.Fatal(err)
	}
	if err := list.CheckSignatureFrom(w.cas().listed(string(a)).cert); err != nil {
		w.t.Error(err)
	}
	return list
}

func TestRevocationListsNameWhatTheirAuthorityRevoked(t *testing.T) {
	w := newWorld(t)
	before := listOf(w, Operator)
	lost, replaced, other := w.hold(), w.hold(), w.hold(object{"authority": "appstore"})
	for h, reason := range map[*holder]string{lost: "key compromise", replaced: "superseded", other: "it smells"} {
		must[RevokeResult](w, root, "cert.revoke", object{"serial": h.serial, "reason": reason})
	}
	list := listOf(w, Operator)
	reasons := make(map[protocol.Serial]int)
	for _, e := range list.RevokedCertificateEntries {
		serial, _ := serialOf(e.SerialNumber)
		reasons[serial] = e.ReasonCode
	}
	if len(reasons) != 2 || reasons[lost.serial] != 1 || reasons[replaced.serial] != 4 {
		t.Errorf("listed %v", reasons)
	}
	if list.Number.Cmp(before.Number) <= 0 || !list.NextUpdate.After(list.ThisUpdate) {
		t.Errorf("number %v after %v, next update %v", list.Number, before.Number, list.NextUpdate)
	}
	if got := listOf(w, AppStore).RevokedCertificateEntries; len(got) != 1 || got[0].ReasonCode != 0 {
		t.Errorf("the app store lists %v", got)
	}
	if got := listOf(w, Enterprise).RevokedCertificateEntries; len(got) != 0 {
		t.Errorf("enterprise lists %v", got)
	}
	if again := listOf(w, Operator); again.Number.Cmp(list.Number) != 0 {
		t.Error("signed again although nothing changed")
	}
}

func TestOnlyWithAPublicURLDoCertificatesSayWhereTheirListIs(t *testing.T) {
	if points := newWorld(t).hold().cert.CRLDistributionPoints; len(points) != 0 {
		t.Errorf("points at %v", points)
	}
	w := newWorld(t, func(o *Options) { o.PublicURL = "https://bridge.example:9010/" })
	if points := w.hold().cert.CRLDistributionPoints; !slices.Equal(points, []string{"https://bridge.example:9010/pki/operator.crl"}) {
		t.Errorf("points at %v", points)
	}
}

func TestWhatIsPublicAndWhatIsNot(t *testing.T) {
	w := newWorld(t)
	if answer := get(w, "GET", "/pki/ca.pem", ""); answer.Code != http.StatusOK || answer.Body.String() != string(w.Root()) {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	for _, path := range []string{"/pki/root.crl", "/pki/ca.key", "/pki/operator", "/pki/server.crl"} {
		if answer := get(w, "GET", path, ""); answer.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, answer.Code)
		}
	}
}

func (w *world) enroll(token, csr string) (int, Result, string) {
	w.t.Helper()
	body, err := json.Marshal(object{"token": token, "csr": csr})
	if err != nil {
		w.t.Fatal(err)
	}
	answer := get(w, "POST", "/pki/enroll", string(body))
	var said struct {
		Result
		Error *protocol.Error `json:"error"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &said); err != nil {
		w.t.Fatalf("%s: %v", answer.Body, err)
	}
	if said.Error != nil {
		return answer.Code, said.Result, string(said.Error.Code)
	}
	return answer.Code, said.Result, ""
}

func TestADeviceEnrolsItselfOnceWithAToken(t *testing.T) {
	w := newWorld(t)
	token := func() string {
		return must[TokenResult](w, olivia, "cert.token.create", object{"authority": "operator", "skill_id": "lighting", "role": "agent_route", "scene_types": []string{"SMART_HOME"}}).Token
	}
	first := token()
	key := ecdsaKey(t)
	if _, _, code := w.enroll(first, csrOf(t, key, named("heating"))); code != string(protocol.OutsideScope) {
		t.Errorf("for somebody else: %s", code)
	}
	if _, _, code := w.enroll(first, "garbage"); code != string(protocol.InvalidParameter) {
		t.Errorf("with garbage: %s", code)
	}
	status, got, code := w.enroll(first, csrOf(t, key))
	if status != http.StatusOK || code != "" {
		t.Fatalf("%d %s", status, code)
	}
	h := w.holder(key, got)
	if who, err := w.dial(w.listen(), &h.tls); err != nil || who != "lighting" {
		t.Errorf("%q, %v", who, err)
	}
	for name, text := range map[string]string{
		"used": first, "none": "", "no token": "abt_0011223344556677", "another secret": first[:len(first)-4] + "AAAA", "no prefix": first[4:],
	} {
		if status, _, code := w.enroll(text, csrOf(t, ecdsaKey(t))); status != http.StatusUnauthorized || code != string(protocol.CredentialInvalid) {
			t.Errorf("%s: %d %s", name, status, code)
		}
	}
	// The same by command, for devices that are connected already.
	second := token()
	if got := must[Result](w, dana, "cert.request", object{"token": second, "csr": csrOf(t, ecdsaKey(t))}); got.Status != "issued" {
		t.Errorf("%+v", got)
	}
	w.refused(protocol.CredentialInvalid, dana, "cert.request", object{"token": second, "csr": csrOf(t, ecdsaKey(t))})
	w.refused(protocol.InvalidParameter, dana, "cert.request", object{"token": token(), "csr": csrOf(t, ecdsaKey(t)), "skill_id": "heating"})
	w.refused(protocol.PermissionDenied, dana, "cert.token.create", object{"authority": "operator", "skill_id": "x"})
	for _, body := range []string{"", "{", "[]", `{"token":1}`, `{"token":"x","csr":"y","more":1}`, `{} {}`, strings.Repeat(" ", maxEnrolment+1)} {
		if answer := get(w, "POST", "/pki/enroll", body); answer.Code/100 != 4 {
			t.Errorf("%.20q: %d", body, answer.Code)
		}
	}
}

func TestWrongClaimTokensAreThrottled(t *testing.T) {
	w := newWorld(t)
	failures := 0
	w.opts.Failed = func(_ context.Context, from netip.Addr) error {
		if !from.IsValid() {
			t.Error("the address is not known")
		}
		if failures++; failures > 3 {
			return protocol.Errorf(protocol.RateLimited, "too many failed attempts")
		}
		return nil
	}
	for i, want := range []protocol.Code{protocol.CredentialInvalid, protocol.CredentialInvalid, protocol.CredentialInvalid, protocol.RateLimited} {
		if _, _, code := w.enroll("abt_0011223344556677", csrOf(t, ecdsaKey(t))); code != string(want) {
			t.Errorf("attempt %d: %s, want %s", i+1, code, want)
		}
	}
	token := must[TokenResult](w, root, "cert.token.create", object{"authority": "operator", "skill_id": "x"}).Token
	if status, _, _ := w.enroll(token, csrOf(t, ecdsaKey(t))); status != http.StatusOK || failures != 4 {
		t.Errorf("a good token: %d, %d failures", status, failures)
	}
}

func TestStalledEnrolmentsOfOneAddressKeepNobodyElseOut(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	var ends []*io.PipeWriter
	post := func(from string, body io.Reader) int {
		r := httptest.NewRequest("POST", "/pki/enroll", body)
		r.RemoteAddr = from + ":1"
		answer := httptest.NewRecorder()
		w.Handler().ServeHTTP(answer, r)
		return answer.Code
	}
	for range enrolments / 4 {
		body, end := io.Pipe()
		ends = append(ends, end)
		all.Go(func() { post("192.0.2.1", body) })
		_, _ = io.WriteString(end, "{") // returns when it was read
	}
	if code := post("192.0.2.1", strings.NewReader("{}")); code != http.StatusServiceUnavailable {
		t.Errorf("one more of the same address: %d", code)
	}
	if code := post("192.0.2.2", strings.NewReader("{}")); code != http.StatusUnauthorized {
		t.Errorf("another address: %d", code)
	}
	for _, end := range ends {
		_ = end.Close()
	}
	all.Wait()
}

func TestATokenIsClaimedOnceThoughManyTry(t *testing.T) {
	w := newWorld(t)
	token := must[TokenResult](w, root, "cert.token.create", object{"authority": "operator", "skill_id": "x"}).Token
	csr := csrOf(t, ecdsaKey(t))
	var wg sync.WaitGroup
	won := make(chan struct{}, 8)
	for range cap(won) {
		wg.Go(func() {
			if status, _, _ := w.enroll(token, csr); status == http.StatusOK {
				won <- struct{}{}
			}
		})
	}
	wg.Wait()
	if len(won) != 1 || w.state.certificates.Len() != 1 {
		t.Errorf("%d devices, %d certificates", len(won), w.state.certificates.Len())
	}
}
