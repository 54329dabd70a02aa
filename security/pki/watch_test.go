package pki

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestARevocationIsToldOnEveryBridge(t *testing.T) {
	w := newWorld(t)
	second := w.another()
	h := w.hold()
	if err := second.Valid(h.serial); err != nil {
		t.Fatalf("the other bridge does not know it: %v", err)
	}
	must[RevokeResult](w, olivia, "cert.revoke", object{"serial": h.serial, "reason": "lost"})
	for i, bridge := range []*world{w, second} {
		if protocol.CodeOf(bridge.Valid(h.serial)) != protocol.CertificateRevoked {
			t.Errorf("bridge %d still takes it", i)
		}
		eventually.Holds(t, "the end is told", func() bool { _, ok := bridge.endOf(h.serial); return ok })
		e, _ := bridge.endOf(h.serial)
		if e.Reason != Revoked || e.Skill != "lighting" || e.Principal != "lighting" || e.Space != protocol.DefaultSpace ||
			e.Successor != "" || e.Err().Code != protocol.CertificateRevoked || !bridge.told("cert.revoked") {
			t.Errorf("told %+v", e)
		}
	}
	third := w.another() // starts later: that is no news any more
	if protocol.CodeOf(third.Valid(h.serial)) != protocol.CertificateRevoked {
		t.Error("forgotten at a start")
	}
	other := third.hold()
	must[RevokeResult](third, olivia, "cert.revoke", object{"serial": other.serial, "reason": "lost"})
	eventually.Holds(t, "the next end is told", func() bool { _, ok := third.endOf(other.serial); return ok })
	if _, told := third.endOf(h.serial); told {
		t.Error("told of what had ended before")
	}
}

// inBubble runs a test with time of its own, which it has pass.
func inBubble(t *testing.T, test func(t *testing.T, w *world, passes func(time.Duration))) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		test(t, newWorld(t), func(d time.Duration) { time.Sleep(d); synctest.Wait() })
	})
}

func TestExpiryIsToldToTheSecond(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world, passes func(time.Duration)) {
		long := w.hold()
		h := w.hold(object{"validity_seconds": 100})
		passes(99 * time.Second)
		if _, told := w.endOf(h.serial); told || w.Valid(h.serial) != nil {
			t.Fatal("it ended too early")
		}
		passes(2 * time.Second)
		e, told := w.endOf(h.serial)
		if !told || e.Reason != Expired || e.Err().Code != protocol.CertificateExpired || protocol.CodeOf(w.Valid(h.serial)) != protocol.CertificateExpired {
			t.Errorf("told %+v, %v", e, w.Valid(h.serial))
		}
		if _, told := w.endOf(long.serial); told {
			t.Error("the other one ended as well")
		}
		if _, err := w.ask(root, "cert.renew", object{"serial": h.serial, "csr": csrOf(t, ecdsaKey(t))}); protocol.CodeOf(err) != protocol.CertificateExpired {
			t.Errorf("renewed after its end: %v", err)
		}
	})
}

func TestWhatExpiredStandsWhileARenewedOneDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world, passes func(time.Duration)) {
		h := w.hold(object{"validity_seconds": 100})
		passes(50 * time.Second)
		fresh := must[Result](w, root, "cert.renew", object{"serial": h.serial, "csr": csrOf(t, ecdsaKey(t))})
		passes(51 * time.Second)
		if e, told := w.endOf(h.serial); !told || e.Successor != fresh.Serial {
			t.Errorf("told %+v", e)
		}
		who, err := w.Holder(h.serial)
		if protocol.CodeOf(w.Valid(h.serial)) != protocol.CertificateExpired || err != nil || who.CertSerial != fresh.Serial {
			t.Errorf("valid %v, held by %+v, %v", w.Valid(h.serial), who, err)
		}
		must[RevokeResult](w, root, "cert.revoke", object{"serial": fresh.Serial, "reason": "x"})
		if _, err := w.Holder(h.serial); protocol.CodeOf(err) != protocol.CertificateExpired {
			t.Errorf("held: %v", err)
		}
	})
}

func TestWarningsComeThirtySevenAndOneDayAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world, passes func(time.Duration)) {
		w.hold(object{"validity_seconds": 60 * 86400})
		warned := func() (n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, e := range w.events {
				if e == "cert.expiring" {
					n++
				}
			}
			return n
		}
		var seen []int
		for _, d := range []time.Duration{29 * day, 2 * day, 21 * day, 2 * day, 5*day - time.Hour, 2 * time.Hour} {
			passes(d)
			seen = append(seen, warned())
		}
		if want := []int{0, 1, 1, 2, 2, 3}; !slices.Equal(seen, want) {
			t.Errorf("warned %v times, want %v", seen, want)
		}
		passes(2 * day)
		if warned() != 3 || !w.told("cert.expired") {
			t.Error("the end was not told, or warned of")
		}
	})
}

func TestAShortLivedCertificateIsNotWarnedAboutAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world, passes func(time.Duration)) {
		w.hold(object{"validity_seconds": 3 * 86400})
		passes(time.Hour)
		if w.told("cert.expiring") {
			t.Error("warned of what was just issued")
		}
		passes(2 * day)
		if !w.told("cert.expiring") {
			t.Error("not warned a day ahead")
		}
	})
}

func TestOldRecordsAreForgotten(t *testing.T) {
	w := newWorld(t)
	h := w.hold(object{"validity_seconds": 3600})
	long := w.hold(object{"validity_seconds": 500 * 86400})
	must[Result](w, dana, "cert.request", lighting(csrOf(t, ecdsaKey(t))))
	must[TokenResult](w, root, "cert.token.create", object{"authority": "operator", "skill_id": "x"})
	w.collectGarbage(t.Context(), time.Now().Add(keepExpired))
	if w.state.certificates.Len() != 2 {
		t.Error("a certificate was forgotten too early")
	}
	w.collectGarbage(t.Context(), time.Now().Add(keepExpired+day))
	if w.state.certificates.Len() != 1 || w.Valid(long.serial) != nil || protocol.CodeOf(w.Valid(h.serial)) != protocol.CertificateUnknown {
		t.Errorf("%d certificates left", w.state.certificates.Len())
	}
	if w.state.requests.Len() != 0 || w.state.tokens.Len() != 0 {
		t.Error("requests or tokens are kept for ever")
	}
}

func TestMetricsCountCertificates(t *testing.T) {
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(o *Options) { o.Registerer = registry })
	h := w.hold(object{"validity_seconds": 5 * 86400})
	w.hold(object{"authority": "appstore"})
	must[RevokeResult](w, root, "cert.revoke", object{"serial": w.hold().serial, "reason": "x"})
	must[Result](w, dana, "cert.request", lighting(csrOf(t, ecdsaKey(t))))
	for name, want := range map[string]float64{
		"aibridge_certificates/operator/valid": 1, "aibridge_certificates/appstore/valid": 1, "aibridge_certificates/operator/revoked": 1,
		"aibridge_certificates_expiring/30": 1, "aibridge_certificates_expiring/7": 1, "aibridge_certificates_expiring/1": 0,
		"aibridge_certificate_requests/pending": 1,
	} {
		if got := gauge(t, registry, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	must[Result](w, root, "cert.renew", object{"serial": h.serial, "csr": csrOf(t, ecdsaKey(t)), "validity_seconds": 90 * 86400})
	if expiring := gauge(t, registry, "aibridge_certificates_expiring/30"); expiring != 0 {
		t.Errorf("%v expire although they were renewed", expiring)
	}
}

// gauge is the value of a metric, named by its labels' values.
func gauge(t *testing.T, from prometheus.Gatherer, wanted string) float64 {
	t.Helper()
	got, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range got {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, l := range m.GetLabel() {
				name += "/" + l.GetValue()
			}
			if name == wanted {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no metric %s", wanted)
	return 0
}
