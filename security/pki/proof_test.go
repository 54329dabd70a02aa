package pki

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// declareParams are those of the command scene.declare of these tests.
type declareParams struct {
	CertSN string             `json:"cert_sn,omitempty"`
	Skill  protocol.SkillID   `json:"skill_id"`
	Role   string             `json:"role"`
	Scene  protocol.SceneType `json:"scene_type"`
}

type declared struct {
	Serial protocol.Serial `json:"serial,omitempty"`
}

// declaring makes the router of a world run scene.declare, which authorizes
// and does nothing more.
func declaring(w *world) {
	w.t.Helper()
	spec := commands.Spec{Name: "scene.declare", Summary: "Test.", Effect: commands.Read, Action: "scene:declare"}
	set, err := commands.NewSet(append(w.Commands(), commands.New(spec, func(ctx context.Context, call *commands.Call, p declareParams) (declared, error) {
		grant, err := w.Authorize(ctx, call, Need{Serial: protocol.Serial(p.CertSN), Skill: p.Skill, Role: p.Role, SceneType: p.Scene})
		return declared{grant.Serial}, err
	}))...)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = w.router.Close(context.Background())
	w.router = commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
}

// A proof is what extension.proof says, before it is signed.
type proof struct {
	method jwt.SigningMethod
	key    any
	claims jwt.MapClaims
}

// prove makes the extension for a request. change changes the proof.
func prove(t testing.TB, key crypto.Signer, change ...func(*proof)) func(id string, params []byte) []byte {
	return func(id string, params []byte) []byte {
		sum := sha256.Sum256(params)
		p := &proof{jwt.SigningMethodES256, key, jwt.MapClaims{
			"aud": "aibridge", "sub": "lighting", "jti": id, "iat": time.Now().Unix(), "cmd": "scene.declare",
			"ph": base64.RawURLEncoding.EncodeToString(sum[:]),
		}}
		for _, f := range change {
			f(p)
		}
		text, err := jwt.NewWithClaims(p.method, p.claims).SignedString(p.key)
		if err != nil {
			t.Fatal(err)
		}
		extension, err := json.Marshal(object{"proof": text})
		if err != nil {
			t.Fatal(err)
		}
		return extension
	}
}

func declaration(serial protocol.Serial) object {
	return object{"cert_sn": serial, "skill_id": "lighting", "role": "agent_route", "scene_type": "SMART_HOME"}
}

func TestASerialProvesNothingByItself(t *testing.T) {
	w := newWorld(t)
	declaring(w)
	h, other := w.hold(), w.hold()
	self, err := w.Identify(h.cert)
	if err != nil {
		t.Fatal(err)
	}
	bare := object{"skill_id": "lighting", "role": "agent_route", "scene_type": "SMART_HOME"}
	w.refused(protocol.CertificateRequired, dana, "scene.declare", bare)
	w.refused(protocol.ProofFailed, dana, "scene.declare", declaration(h.serial))
	w.refused(protocol.ProofFailed, self, "scene.declare", declaration(other.serial)) // on a connection that does not hold its key
	w.refused(protocol.CertificateUnknown, self, "scene.declare", declaration("1234567890abcdef"))
	w.refused(protocol.CertificateUnknown, self, "scene.declare", declaration("8a1b2c"))
	w.refused(protocol.CertificateUnknown, self, "scene.declare", declaration("8a1b2c3d4e5f6a7g"))
	for name, params := range map[string]object{"by its connection": bare, "named": declaration(h.serial), "in capitals": declaration(protocol.Serial(strings.ToUpper(string(h.serial))))} {
		got, err := w.ask(self, "scene.declare", params)
		if err != nil || !strings.Contains(string(got), string(h.serial)) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestACertificateCoversItsSkillRolesScenesAndSpace(t *testing.T) {
	w := newWorld(t)
	declaring(w)
	h := w.hold()
	self, err := w.Identify(h.cert)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]object{
		"another skill": {"skill_id": "heating"}, "another role": {"role": "light"}, "another scene": {"scene_type": "HOSPITAL"},
	} {
		params := declaration(h.serial)
		for k, v := range change {
			params[k] = v
		}
		w.refused(protocol.OutsideScope, self, "scene.declare", params)
		if _, err := w.ask(self, "scene.declare", params); err == nil {
			t.Error(name)
		}
	}
	moved := *self
	moved.Space = "lab"
	w.refused(protocol.CertificateUnknown, &moved, "scene.declare", declaration(h.serial))

	every := w.hold(object{"scene_types": []string{"*"}, "role": "route_agent"})
	everywhere, err := w.Identify(every.cert)
	if err != nil {
		t.Fatal(err)
	}
	must[object](w, everywhere, "scene.declare", object{"skill_id": "lighting", "role": "agent_route", "scene_type": "ANY"})
	must[RevokeResult](w, root, "cert.revoke", object{"serial": every.serial, "reason": "x"})
	w.refused(protocol.CertificateRevoked, everywhere, "scene.declare", declaration(every.serial))
}

func TestAProofOfPossession(t *testing.T) {
	w := newWorld(t)
	declaring(w)
	h := w.hold()
	edKey := ed25519Key(t)
	ed := w.holder(edKey, must[Result](w, root, "cert.issue", lighting(csrOf(t, edKey))))
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	big := w.holder(rsaKey, must[Result](w, root, "cert.issue", lighting(csrOf(t, rsaKey))))
	is := func(name string, value any) func(*proof) {
		return func(p *proof) {
			if p.claims[name] = value; value == nil {
				delete(p.claims, name)
			}
		}
	}
	by := func(method jwt.SigningMethod, key any) func(*proof) {
		return func(p *proof) { p.method, p.key = method, key }
	}
	zero := sha256.Sum256(nil)
	for name, test := range map[string]struct {
		serial  protocol.Serial
		changes []func(*proof)
		want    protocol.Code
	}{
		"ES256":            {h.serial, nil, ""},
		"EdDSA":            {ed.serial, []func(*proof){by(jwt.SigningMethodEdDSA, edKey)}, ""},
		"PS256":            {big.serial, []func(*proof){by(jwt.SigningMethodPS256, rsaKey)}, ""},
		"several bridges":  {h.serial, []func(*proof){is("aud", []string{"other", "aibridge"})}, ""},
		"hash in hex":      {h.serial, []func(*proof){func(p *proof) { p.claims["ph"] = inHex(t, p.claims["ph"].(string)) }}, ""},
		"another key":      {h.serial, []func(*proof){by(jwt.SigningMethodES256, ecdsaKey(t))}, protocol.ProofFailed},
		"no signature":     {h.serial, []func(*proof){by(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType)}, protocol.ProofFailed},
		"key confusion":    {h.serial, []func(*proof){by(jwt.SigningMethodHS256, h.cert.RawSubjectPublicKeyInfo)}, protocol.ProofFailed},
		"key confusion 2":  {h.serial, []func(*proof){by(jwt.SigningMethodHS256, encodePEM(h.cert.Raw))}, protocol.ProofFailed},
		"another bridge":   {h.serial, []func(*proof){is("aud", "other")}, protocol.ProofFailed},
		"no bridge":        {h.serial, []func(*proof){is("aud", nil)}, protocol.ProofFailed},
		"another skill":    {h.serial, []func(*proof){is("sub", "heating")}, protocol.ProofFailed},
		"no skill":         {h.serial, []func(*proof){is("sub", nil)}, protocol.ProofFailed},
		"another request":  {h.serial, []func(*proof){is("jti", "other")}, protocol.ProofFailed},
		"another command":  {h.serial, []func(*proof){is("cmd", "scene.join")}, protocol.ProofFailed},
		"other params":     {h.serial, []func(*proof){is("ph", base64.RawURLEncoding.EncodeToString(zero[:]))}, protocol.ProofFailed},
		"no params":        {h.serial, []func(*proof){is("ph", nil)}, protocol.ProofFailed},
		"a number":         {h.serial, []func(*proof){is("ph", 1)}, protocol.ProofFailed},
		"old":              {h.serial, []func(*proof){is("iat", time.Now().Add(-proofLife-time.Minute).Unix())}, protocol.ProofFailed},
		"from the future":  {h.serial, []func(*proof){is("iat", time.Now().Add(proofSkew+time.Minute).Unix())}, protocol.ProofFailed},
		"without time":     {h.serial, []func(*proof){is("iat", nil)}, protocol.ProofFailed},
		"expired":          {h.serial, []func(*proof){is("exp", time.Now().Add(-time.Minute).Unix())}, protocol.ProofFailed},
		"of another's key": {ed.serial, nil, protocol.ProofFailed},
	} {
		_, err := w.askWith(dana, "scene.declare", declaration(test.serial), prove(t, h.key, test.changes...))
		if protocol.CodeOf(err) != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	for name, extension := range map[string]string{
		"nothing": `{}`, "a number": `{"proof":1}`, "null": `{"proof":null}`, "empty": `{"proof":""}`, "garbage": `{"proof":"a.b.c"}`,
		"truncated": `{"proof":"eyJhbGciOiJFUzI1NiJ9.e30"}`, "endless": `{"proof":"` + strings.Repeat("a", maxProof+1) + `"}`,
	} {
		_, err := w.askWith(dana, "scene.declare", declaration(h.serial), func(string, []byte) []byte { return []byte(extension) })
		if protocol.CodeOf(err) != protocol.ProofFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func inHex(t *testing.T, base64url string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(base64url)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(raw)
}

// TestAnOverheardProofIsOfNoUse sends the same envelope again, as the one who
// made it and as somebody else.
func TestAnOverheardProofIsOfNoUse(t *testing.T) {
	w := newWorld(t)
	declaring(w)
	h := w.hold()
	params, err := json.Marshal(declaration(h.serial))
	if err != nil {
		t.Fatal(err)
	}
	request := protocol.Request{Version: protocol.Version, ID: "r1", Command: "scene.declare", Params: params, Extension: prove(t, h.key)("r1", params)}
	send := func(who *protocol.Principal) protocol.Code {
		r := w.router.Handle(t.Context(), commands.Inbound{Principal: who, Body: request.Append(nil), Door: "test"})
		if r.Err == nil {
			return ""
		}
		return r.Err.Code
	}
	for i, test := range []struct {
		who  *protocol.Principal
		want protocol.Code
	}{{dana, ""}, {dana, ""}, {labRatAtHome(), protocol.ProofFailed}, {dana, ""}} {
		if got := send(test.who); got != test.want {
			t.Errorf("%d: %s, want %q", i, got, test.want)
		}
	}
	// The bridge starts anew and remembers nothing of it.
	second := w.another(func(o *Options) { o.Now = func() time.Time { return time.Now().Add(3 * time.Second) } })
	declaring(second)
	w.router, second.router = second.router, w.router
	if got := send(labRatAtHome()); got != protocol.ProofFailed {
		t.Errorf("after a restart: %s", got)
	}
}

func labRatAtHome() *protocol.Principal {
	who := *labRat
	who.Space = protocol.DefaultSpace
	return &who
}

func TestTheHolderRenewsAndRevokesByProof(t *testing.T) {
	w := newWorld(t)
	h := w.hold()
	renewing := func(p *proof) { p.claims["cmd"] = "cert.renew" }
	key := ecdsaKey(t)
	got, err := w.askWith(dana, "cert.renew", object{"serial": h.serial, "csr": csrOf(t, key)}, prove(t, h.key, renewing))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), `"issued"`) {
		t.Errorf("%s", got)
	}
	params := object{"serial": h.serial, "reason": "lost"}
	if _, err := w.askWith(dana, "cert.revoke", params, prove(t, h.key, renewing)); protocol.CodeOf(err) != protocol.ProofFailed {
		t.Errorf("with the proof of another command: %v", err)
	}
	revoking := func(p *proof) { p.claims["cmd"] = "cert.revoke" }
	if _, err := w.askWith(dana, "cert.revoke", params, prove(t, h.key, revoking)); err != nil {
		t.Error(err)
	}
}
