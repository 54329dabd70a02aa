package pki

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"math"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

func lighting(csr string) object {
	return object{"authority": "operator", "csr": csr, "skill_id": "lighting", "role": "agent_route", "scene_types": []string{"SMART_HOME"}, "purpose": "Lights"}
}

func TestARequestIsApprovedBySomebodyElseAndIssuedOnce(t *testing.T) {
	w := newWorld(t)
	key := ecdsaKey(t)
	asked := must[Result](w, dana, "cert.request", lighting(csrOf(t, key, named("lighting"))))
	if asked.Status != "pending" || asked.Serial != "" || asked.Chain != nil || !w.told("cert.requested") {
		t.Fatalf("asked: %+v", asked)
	}
	id := object{"request_id": asked.RequestID}
	w.refused(protocol.InvalidState, dana, "cert.issue", id)
	w.refused(protocol.PermissionDenied, dana, "cert.approve", id)
	w.refused(protocol.PermissionDenied, oscar, "cert.approve", id) // of other authorities
	w.refused(protocol.NotFound, labBoss, "cert.approve", id)       // of another space
	w.refused(protocol.NotFound, olivia, "cert.approve", object{"request_id": "nobody's"})
	if got := must[Result](w, olivia, "cert.approve", id); got.Status != "approved" {
		t.Fatalf("approved: %+v", got)
	}
	w.refused(protocol.InvalidState, olivia, "cert.approve", id)
	w.refused(protocol.InvalidState, root, "cert.reject", id)
	w.refused(protocol.PermissionDenied, oscar, "cert.issue", id)

	got := must[Result](w, dana, "cert.issue", id)
	if !regexp.MustCompile(`^[1-9a-f][0-9a-f]{15}$`).MatchString(string(got.Serial)) || got.Status != "issued" || len(got.Chain) != 3 {
		t.Fatalf("issued: %+v", got)
	}
	again := w.refused(protocol.InvalidState, dana, "cert.issue", id)
	if again.Details["serial"] != string(got.Serial) {
		t.Errorf("the refusal does not name the certificate: %v", again.Details)
	}
	h := w.holder(key, got)
	if who, err := w.dial(w.listen(), &h.tls); err != nil || who != "lighting" {
		t.Errorf("%q, %v", who, err)
	}
	shown := must[GetResult](w, dana, "cert.get", id)
	if shown.Serial != got.Serial || shown.Request.DecidedBy != "olivia" || shown.Certificate.Status != StatusValid || !slices.Equal(shown.Chain, got.Chain) {
		t.Errorf("shown: %+v", shown)
	}
}

func TestNobodyApprovesTheirOwnRequest(t *testing.T) {
	w := newWorld(t)
	for _, who := range []*protocol.Principal{olivia, root} {
		asked := must[Result](w, who, "cert.request", lighting(csrOf(t, ecdsaKey(t))))
		w.refused(protocol.PermissionDenied, who, "cert.approve", object{"request_id": asked.RequestID})
	}
}

func TestARejectedRequestHasNoCertificate(t *testing.T) {
	w := newWorld(t)
	asked := must[Result](w, dana, "cert.request", lighting(csrOf(t, ecdsaKey(t))))
	id := object{"request_id": asked.RequestID, "reason": "who are you"}
	if got := must[Result](w, olivia, "cert.reject", id); got.Status != "rejected" {
		t.Fatalf("%+v", got)
	}
	w.refused(protocol.InvalidState, olivia, "cert.approve", id)
	w.refused(protocol.InvalidState, dana, "cert.issue", object{"request_id": asked.RequestID})
	if got := must[ListResult](w, dana, "cert.list", object{"of": "requests", "status": "rejected"}); got.Total != 1 || got.Requests[0].Reason != "who are you" {
		t.Errorf("%+v", got)
	}
}

func TestAnApprovedRequestIsIssuedOnceThoughManyAsk(t *testing.T) {
	w := newWorld(t)
	asked := must[Result](w, dana, "cert.request", lighting(csrOf(t, ecdsaKey(t))))
	must[Result](w, olivia, "cert.approve", object{"request_id": asked.RequestID})
	var wg sync.WaitGroup
	serials := make(chan protocol.Serial, 16)
	r, revision, _ := w.opts.Requests.Get(requestKey(protocol.DefaultSpace, asked.RequestID))
	public, err := r.publicKey()
	if err != nil {
		t.Fatal(err)
	}
	for range cap(serials) {
		wg.Go(func() {
			e, err := w.issue(t.Context(), order{authority: Operator, scope: &r.Scope, public: public, validity: day, by: "olivia",
				claim: func(s protocol.Serial) Entitlement {
					done := *r
					done.State, done.Serial = Issued, s
					return Entitlement{Request: &done, Revision: revision}
				}})
			if err == nil {
				serials <- e.Serial
			} else if protocol.CodeOf(err) != protocol.RevisionConflict {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(serials) != 1 || w.state.certificates.Len() != 1 {
		t.Errorf("%d certificates for one request", len(serials))
	}
}

func TestOnlyOfficersIssueDirectly(t *testing.T) {
	w := newWorld(t)
	params := lighting(csrOf(t, ecdsaKey(t)))
	w.refused(protocol.PermissionDenied, dana, "cert.issue", params)
	w.refused(protocol.PermissionDenied, oscar, "cert.issue", params)
	w.refused(protocol.NotFound, labRat, "cert.issue", object{"authority": "operator", "csr": params["csr"], "skill_id": "x", "space_id": "default"})
	must[Result](w, olivia, "cert.issue", params)
	must[Result](w, oscar, "cert.issue", object{"authority": "enterprise", "csr": params["csr"], "skill_id": "x"})
	must[Result](w, root, "cert.issue", object{"authority": "appstore", "csr": params["csr"], "agent_id": "x", "space_id": "lab"})
}

func TestOnlyAdministratorsGrantPower(t *testing.T) {
	w := newWorld(t)
	csr := csrOf(t, ecdsaKey(t))
	for name, more := range map[string]object{
		"operator":      {"operator_id": "eve"},
		"administrator": {"skill_id": "eve", "role": "administrator"},
		"officer":       {"skill_id": "eve", "roles": []string{"sensor", "officer:appstore"}},
	} {
		more["authority"], more["csr"] = "operator", csr
		w.refused(protocol.PermissionDenied, olivia, "cert.issue", more)
		delete(more, "csr")
		w.refused(protocol.PermissionDenied, olivia, "cert.token.create", more)
		more["csr"] = csr
		asked := must[Result](w, dana, "cert.request", more)
		w.refused(protocol.PermissionDenied, olivia, "cert.approve", object{"request_id": asked.RequestID})
		if got := must[Result](w, root, "cert.approve", object{"request_id": asked.RequestID}); got.Status != "approved" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, name := range []string{"administrator", "anonymous", "aibridge"} {
		w.refused(protocol.PermissionDenied, root, "cert.issue", object{"authority": "operator", "csr": csr, "agent_id": name})
	}
	officer := must[Result](w, root, "cert.issue", object{"authority": "operator", "csr": csr, "operator_id": "otto", "role": "officer:appstore"})
	who, err := w.Identify(w.holder(ecdsaKey(t), officer).cert)
	if err != nil || who.Kind != protocol.KindOperator || !who.HasRole("officer:appstore") || who.Administrator() {
		t.Errorf("%+v, %v", who, err)
	}
}

func TestSigningRequestsAreChecked(t *testing.T) {
	w := newWorld(t)
	key := ecdsaKey(t)
	good := csrOf(t, key)
	tampered := strings.Replace(good, good[len(good)-60:len(good)-50], "AAAAAAAAAA", 1)
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	uri := func(text string) func(*x509.CertificateRequest) {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return func(r *x509.CertificateRequest) { r.URIs = []*url.URL{u} }
	}
	for name, test := range map[string]struct {
		csr  string
		want protocol.Code
	}{
		"good":                    {good, ""},
		"its name":                {csrOf(t, key, named("lighting")), ""},
		"its URI":                 {csrOf(t, key, uri("aibridge:agent/lighting")), ""},
		"its skill's URI":         {csrOf(t, key, uri("aibridge:skill/lighting")), ""},
		"Ed25519":                 {csrOf(t, ed25519Key(t)), ""},
		"empty":                   {" ", protocol.InvalidParameter},
		"garbage":                 {"garbage", protocol.InvalidParameter},
		"garbage in PEM":          {"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", protocol.InvalidParameter},
		"a key instead":           {strings.ReplaceAll(good, "CERTIFICATE REQUEST", "PRIVATE KEY"), protocol.InvalidParameter},
		"two":                     {good + good, protocol.InvalidParameter},
		"truncated":               {good[:len(good)/2], protocol.InvalidParameter},
		"not signed by its key":   {tampered, protocol.InvalidParameter},
		"P-224":                   {csrOf(t, p224), protocol.InvalidParameter},
		"a short RSA key":         {csrOf(t, small), protocol.InvalidParameter},
		"too long":                {strings.Repeat("A", maxCSR+1), protocol.InvalidParameter},
		"somebody else's name":    {csrOf(t, key, named("heating")), protocol.OutsideScope},
		"somebody else's URI":     {csrOf(t, key, uri("aibridge:agent/heating")), protocol.OutsideScope},
		"its name as an operator": {csrOf(t, key, uri("aibridge:operator/lighting")), protocol.OutsideScope},
		"a host":                  {csrOf(t, key, func(r *x509.CertificateRequest) { r.DNSNames = []string{"localhost"} }), protocol.OutsideScope},
		"an address":              {csrOf(t, key, func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{127, 0, 0, 1}} }), protocol.OutsideScope},
		"an e-mail address":       {csrOf(t, key, func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }), protocol.OutsideScope},
	} {
		for _, command := range []string{"cert.issue", "cert.request"} {
			if _, err := w.ask(root, command, lighting(test.csr)); protocol.CodeOf(err) != test.want {
				t.Errorf("%s, %s: %v, want %q", command, name, err, test.want)
			}
		}
	}
}

func TestAScopeIsChecked(t *testing.T) {
	w := newWorld(t)
	csr := csrOf(t, ecdsaKey(t))
	for name, change := range map[string]object{
		"nobody":                    {"skill_id": nil},
		"a wildcard":                {"skill_id": "#"},
		"a path":                    {"skill_id": "a/b"},
		"an agent with a path":      {"agent_id": "../x"},
		"a long role":               {"role": strings.Repeat("r", 33)},
		"a scene of its own making": {"scene_types": []string{"A/B"}},
		"an operator and a skill":   {"operator_id": "eve"},
		"no such authority":         {"authority": "root"},
		"no authority":              {"authority": nil},
		"endless":                   {"validity_seconds": math.MaxInt},
		"never":                     {"validity_seconds": 0},
	} {
		params := lighting(csr)
		for k, v := range change {
			if params[k] = v; v == nil {
				delete(params, k)
			}
		}
		if name == "nobody" {
			delete(params, "role")
		}
		if _, err := w.ask(root, "cert.issue", params); protocol.CodeOf(err) != protocol.InvalidParameter {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRenewingKeepsTheIdentityAndOverlaps(t *testing.T) {
	w := newWorld(t)
	l := w.listen()
	old := w.hold()
	self, err := w.Identify(old.cert)
	if err != nil {
		t.Fatal(err)
	}
	w.refused(protocol.InvalidParameter, self, "cert.renew", object{"csr": csrOf(t, old.key)}) // the same key
	w.refused(protocol.OutsideScope, self, "cert.renew", object{"csr": csrOf(t, ecdsaKey(t), named("heating"))})
	w.refused(protocol.ProofFailed, dana, "cert.renew", object{"serial": old.serial, "csr": csrOf(t, ecdsaKey(t))})
	w.refused(protocol.CertificateUnknown, labBoss, "cert.renew", object{"serial": old.serial, "csr": csrOf(t, ecdsaKey(t))})
	w.refused(protocol.CertificateRequired, dana, "cert.renew", object{"csr": csrOf(t, ecdsaKey(t))})
	w.refused(protocol.PermissionDenied, self, "cert.renew", object{"csr": csrOf(t, ecdsaKey(t)), "validity_seconds": 91 * 86400})

	key := ecdsaKey(t)
	fresh := w.holder(key, must[Result](w, self, "cert.renew", object{"csr": csrOf(t, key)}))
	if fresh.serial == old.serial || w.Successor(old.serial) != fresh.serial {
		t.Errorf("renewed %s into %s", old.serial, fresh.serial)
	}
	for _, h := range []*holder{old, fresh} {
		if who, err := w.dial(l, &h.tls); err != nil || who != self.ID {
			t.Errorf("%s: %q, %v", h.serial, who, err)
		}
	}
	renewed, err := w.Identify(fresh.cert)
	if err != nil || renewed.ID != self.ID || renewed.Kind != self.Kind || !slices.Equal(renewed.Roles, self.Roles) {
		t.Errorf("%+v, %v", renewed, err)
	}
	must[RevokeResult](w, self, "cert.revoke", object{"serial": old.serial, "reason": "superseded"})
	if w.Valid(fresh.serial) != nil {
		t.Error("the new one went with the old")
	}
	w.refused(protocol.CertificateRevoked, root, "cert.renew", object{"serial": old.serial, "csr": csrOf(t, ecdsaKey(t))})
}

func TestACompromisedKeyTakesItsRenewalsAlong(t *testing.T) {
	w := newWorld(t)
	old := w.hold()
	next := func(serial protocol.Serial) protocol.Serial {
		return must[Result](w, root, "cert.renew", object{"serial": serial, "csr": csrOf(t, ecdsaKey(t))}).Serial
	}
	second := next(old.serial)
	third := next(second)
	other := w.hold()
	got := must[RevokeResult](w, olivia, "cert.revoke", object{"serial": strings.ToUpper(string(old.serial)), "reason": "Key compromise"})
	if !slices.Equal(got.Renewals, []protocol.Serial{second, third}) {
		t.Errorf("%+v", got)
	}
	for _, serial := range []protocol.Serial{old.serial, second, third} {
		if protocol.CodeOf(w.Valid(serial)) != protocol.CertificateRevoked {
			t.Errorf("%s: %v", serial, w.Valid(serial))
		}
	}
	if err := w.Valid(other.serial); err != nil {
		t.Error(err)
	}
}

func TestACertificateHasOneRenewal(t *testing.T) {
	w := newWorld(t)
	h := w.hold()
	renew := func(csr string) Result {
		return must[Result](w, root, "cert.renew", object{"serial": h.serial, "csr": csr})
	}
	csr := csrOf(t, ecdsaKey(t))
	first := renew(csr)
	if again := renew(csr); again.Serial != first.Serial {
		t.Errorf("who asks again gets %s, not %s", again.Serial, first.Serial)
	}
	w.refused(protocol.LimitReached, root, "cert.renew", object{"serial": h.serial, "csr": csrOf(t, ecdsaKey(t))})
	must[RevokeResult](w, root, "cert.revoke", object{"serial": first.Serial, "reason": "superseded"})
	if renew(csrOf(t, ecdsaKey(t))).Serial == first.Serial {
		t.Error("a renewal that was revoked is given again")
	}
}

func TestWhoMayRevoke(t *testing.T) {
	w := newWorld(t)
	h := w.hold()
	params := object{"serial": h.serial, "reason": "because"}
	w.refused(protocol.PermissionDenied, dana, "cert.revoke", params)
	w.refused(protocol.PermissionDenied, oscar, "cert.revoke", params)
	w.refused(protocol.CertificateUnknown, labBoss, "cert.revoke", params)
	w.refused(protocol.CertificateUnknown, root, "cert.revoke", object{"serial": "1111111111111111", "reason": "x"})
	w.refused(protocol.CertificateUnknown, root, "cert.revoke", object{"serial": "111111", "reason": "x"})
	w.refused(protocol.InvalidParameter, root, "cert.revoke", object{"serial": h.serial})
	first := must[RevokeResult](w, olivia, "cert.revoke", params)
	again := must[RevokeResult](w, root, "cert.revoke", object{"serial": h.serial, "reason": "another reason"})
	if again.Reason != "because" || again.RevokedAt != first.RevokedAt {
		t.Errorf("revoked twice: %+v, %+v", first, again)
	}
	view := must[GetResult](w, dana, "cert.get", object{"serial": h.serial})
	if view.Status != "revoked" || view.Certificate.RevokedBy != "olivia" || view.Certificate.Reason != "because" {
		t.Errorf("%+v", view.Certificate)
	}
}

func TestReasonsInAnySpelling(t *testing.T) {
	for reason, want := range map[string]int{
		"keyCompromise": 1, "key_compromise": 1, "key-compromise": 1, "Key compromise": 1, "compromised": 1, "superseded": 4,
		"cessation of operation": 5, "privilegeWithdrawn": 9, "it smells": 0, "unspecified": 0,
	} {
		if got := reasonCode(reason); got != want {
			t.Errorf("%q is %d, want %d", reason, got, want)
		}
	}
}

func TestListsArePagedFilteredAndWithinTheSpace(t *testing.T) {
	w := newWorld(t)
	for range 5 {
		w.hold()
	}
	w.hold(object{"authority": "appstore", "skill_id": "heating", "validity_seconds": 3600})
	w.hold(object{"space_id": "lab"})
	var seen []protocol.Serial
	params := object{"limit": 4}
	for range 3 {
		got := must[ListResult](w, dana, "cert.list", params)
		if got.Total != 6 {
			t.Fatalf("%d in all", got.Total)
		}
		for _, v := range got.Certificates {
			seen = append(seen, v.Serial)
		}
		if got.NextCursor == "" {
			break
		}
		params["cursor"] = got.NextCursor
	}
	if len(seen) != 6 || !slices.IsSorted(seen) {
		t.Errorf("seen %v", seen)
	}
	for name, test := range map[string]struct {
		who    *protocol.Principal
		params object
		want   int
	}{
		"authority": {dana, object{"authority": "appstore"}, 1},
		"skill":     {dana, object{"skill_id": "heating"}, 1},
		"expiring":  {dana, object{"expires_within_days": 1}, 1},
		"revoked":   {dana, object{"status": "revoked"}, 0},
		"lab":       {labRat, object{}, 1},
		"from far":  {root, object{"space_id": "lab"}, 1},
	} {
		if got := must[ListResult](w, test.who, "cert.list", test.params); got.Total != test.want {
			t.Errorf("%s: %d, want %d", name, got.Total, test.want)
		}
	}
	w.refused(protocol.NotFound, labRat, "cert.list", object{"space_id": "default"})
	w.refused(protocol.InvalidParameter, dana, "cert.list", object{"status": "pending"})
	w.refused(protocol.CertificateUnknown, labRat, "cert.get", object{"serial": seen[0]})
}

func TestPendingRequestsOfOnePrincipalAreLimited(t *testing.T) {
	w := newWorld(t)
	csr := csrOf(t, ecdsaKey(t))
	for range maxOfOneHand {
		must[Result](w, dana, "cert.request", lighting(csr))
	}
	w.refused(protocol.LimitReached, dana, "cert.request", lighting(csr))
	must[Result](w, olivia, "cert.request", lighting(csr))
}

func TestSerialsAreUniqueAcrossAuthorities(t *testing.T) {
	w := newWorld(t)
	seen := make(map[protocol.Serial]bool)
	for i := range 300 {
		scope := &Scope{Version: 1, Kind: protocol.KindSkill, ID: "x", Space: "default", Skill: "x"}
		e, err := w.issue(t.Context(), order{authority: Authorities()[i%3], scope: scope, public: ecdsaKey(t).Public(), validity: day})
		if err != nil {
			t.Fatal(err)
		}
		if serial, ok := serialOf(e.leaf().SerialNumber); !ok || serial != e.Serial || seen[serial] || len(serial) != 16 || serial[0] == '0' {
			t.Fatalf("serial %s", e.Serial)
		}
		seen[e.Serial] = true
	}
}

// TestATakenSerialIsNotIssuedAgain has the table refuse the first serials.
func TestATakenSerialIsNotIssuedAgain(t *testing.T) {
	left, tried := serialAttempts-1, make(map[protocol.Serial]bool)
	w := newWorld(t, func(o *Options) {
		inner := o.Issue
		o.Issue = func(ctx context.Context, c *Certificate, f Entitlement) error {
			if tried[c.Serial] {
				t.Errorf("%s was tried twice", c.Serial)
			}
			tried[c.Serial] = true
			if left--; left >= 0 {
				return protocol.Errorf(protocol.AlreadyExists, "taken")
			}
			return inner(ctx, c, f)
		}
	})
	h := w.hold()
	if len(tried) != serialAttempts || !tried[h.serial] {
		t.Errorf("%d serials tried", len(tried))
	}
}

// TestARevokedCertificateIsNotRenewedAtThatMoment: whoever has copied a key may
// ask for a renewal while the certificate is revoked.
func TestARevokedCertificateIsNotRenewedAtThatMoment(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		h := w.hold()
		csr := csrOf(t, ecdsaKey(t))
		got := make(chan protocol.Serial, 1)
		go func() {
			result, _ := w.Renew(t.Context(), &commands.Call{Principal: root}, RenewParams{Serial: h.serial, CSR: csr})
			got <- result.Serial
		}()
		must[RevokeResult](w, root, "cert.revoke", object{"serial": h.serial, "reason": "key compromise"})
		if renewed := <-got; renewed != "" && w.Valid(renewed) == nil {
			t.Fatal("a renewal outlives the compromised key")
		}
	}
}
