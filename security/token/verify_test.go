package token

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/protocol"
)

func TestATokenOfATrustedIssuerNamesItsPrincipal(t *testing.T) {
	ed := newEd(t)
	for name, test := range map[string]struct {
		issuer Issuer
		token  string
	}{
		"HS256": {sharedSecret(t), sign(t, jwt.SigningMethodHS256, []byte(secret), good())},
		"ES256": {Issuer{Issuer: "issuer", Key: file(t, publicPEM(t, &ecKey().PublicKey))}, sign(t, jwt.SigningMethodES256, ecKey(), good())},
		"EdDSA": {Issuer{Issuer: "issuer", Key: file(t, publicPEM(t, ed.Public()))}, sign(t, jwt.SigningMethodEdDSA, ed, good())},
		"a key set in a file": {
			Issuer{Issuer: "issuer", JWKS: file(t, keySetOf(t, jwk(t, "a", newEd(t).Public()), jwk(t, "b", ed.Public())))},
			sign(t, jwt.SigningMethodEdDSA, ed, good(), "kid", "b"),
		},
		"a key set, and no key id": {
			Issuer{Issuer: "issuer", JWKS: file(t, keySetOf(t, jwk(t, "a", newEd(t).Public()), jwk(t, "b", ed.Public())))},
			sign(t, jwt.SigningMethodEdDSA, ed, good()),
		},
		"one of several audiences": {sharedSecret(t), sign(t, jwt.SigningMethodHS256, []byte(secret), good(with("aud", []string{"other", bridge})))},
	} {
		got, err := verifier(t, test.issuer).Verify(t.Context(), test.token)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		who := got.Principal
		if who.ID != "lamp-1" || who.Kind != protocol.KindAgent || who.Space != protocol.DefaultSpace || who.Method != protocol.MethodToken ||
			who.Expires.Before(time.Now().Add(59*time.Minute)) || who.Credential == "" || strings.Contains(test.token, who.Credential) ||
			who.CertSerial != "" || got.Bound || got.Proof != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestNoTokenOutlivesTheLongestLife(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	issuer := sharedSecret(t)
	issuer.MaxLifetime = time.Hour
	clock := now
	v, err := New(Options{BridgeID: bridge, Issuers: []Issuer{issuer}, Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	ahead := now.Add(leeway) // on the issuer's clock
	text := sign(t, jwt.SigningMethodHS256, []byte(secret), good(with("iat", ahead.Unix()), with("exp", ahead.Add(time.Hour).Unix())))
	clock = ahead
	got, err := v.Verify(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	if ends := now.Add(v.LongestLife()); got.Principal.Expires.After(ends) {
		t.Errorf("a token that was there is good for %v more", got.Principal.Expires.Sub(ends))
	}
}

func TestUndatedTokensAreRefusedIfTheIssuerDatesThem(t *testing.T) {
	undated := sign(t, jwt.SigningMethodHS256, []byte(secret), good(without("iat")))
	dated := sign(t, jwt.SigningMethodHS256, []byte(secret), good())
	for _, required := range []bool{false, true} {
		issuer := sharedSecret(t)
		issuer.RequireIAT = required
		v, err := New(Options{BridgeID: bridge, Issuers: []Issuer{issuer}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(t.Context(), undated); (err != nil) != required {
			t.Errorf("required %v, and without: %v", required, err)
		}
		if _, err := v.Verify(t.Context(), dated); err != nil {
			t.Error(err)
		}
		if v.AcceptsUndated() == required {
			t.Errorf("required %v, and accepted: %v", required, v.AcceptsUndated())
		}
	}
	oidc, err := Issuer{Issuer: "https://id.example", OIDC: true}.withDefaults(bridge)
	if err != nil || !oidc.RequireIAT {
		t.Errorf("of OpenID Connect they may be undated, %v", err)
	}
}

func TestABadTokenIsRefused(t *testing.T) {
	ed, public := newEd(t), publicPEM(t, &ecKey().PublicKey)
	hs := func(change ...func(jwt.MapClaims)) string {
		return sign(t, jwt.SigningMethodHS256, []byte(secret), good(change...))
	}
	right := hs()
	parts := strings.Split(right, ".")
	claims := func(text string) string { return raw(`{"alg":"HS256","typ":"JWT"}`, text) }
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	usual := fmt.Sprintf(`"iss":"issuer","aud":"aibridge","exp":%d`, in(time.Hour))
	if _, err := verifier(t, sharedSecret(t)).Verify(t.Context(), claims(`{`+usual+`,"sub":"a"}`)); err != nil {
		t.Fatalf("what is wrong below would be right without it, but for %v", err)
	}
	shared := sharedSecret(t)
	ec := Issuer{Issuer: "issuer", Key: file(t, public)}
	for name, test := range map[string]struct {
		issuer Issuer
		token  string
	}{
		"empty":                    {shared, ""},
		"garbage":                  {shared, "garbage"},
		"dots":                     {shared, ".."},
		"truncated":                {shared, right[:len(right)-1]},
		"without its signature":    {shared, parts[0] + "." + parts[1] + "."},
		"without the last part":    {shared, parts[0] + "." + parts[1]},
		"with a part more":         {shared, right + ".x"},
		"with padding":             {shared, right + "="},
		"with white space":         {shared, right + "\n"},
		"too long":                 {shared, hs(with("x", strings.Repeat("x", maxLength)))},
		"forged":                   {shared, sign(t, jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), good())},
		"claims exchanged":         {shared, parts[0] + "." + strings.Split(hs(with("sub", "admin")), ".")[1] + "." + parts[2]},
		"expired":                  {shared, hs(with("exp", in(-time.Second)))},
		"without exp":              {shared, hs(without("exp"))},
		"exp as text":              {shared, hs(with("exp", "tomorrow"))},
		"exp beyond reason":        {shared, hs(with("exp", 1e300))},
		"not valid yet":            {shared, hs(with("nbf", in(leeway+time.Hour)))},
		"issued in the future":     {shared, hs(with("iat", in(leeway+time.Hour)))},
		"lasting too long":         {shared, hs(with("exp", in(25*time.Hour)))},
		"lasting too long, no iat": {shared, hs(without("iat"), with("exp", in(25*time.Hour)))},
		"another audience":         {shared, hs(with("aud", "other"))},
		"without audience":         {shared, hs(without("aud"))},
		"audience of another type": {shared, hs(with("aud", 1))},
		"another issuer":           {shared, hs(with("iss", "other"))},
		"issuer nearly right":      {shared, hs(with("iss", "issuer/"))},
		"without issuer":           {shared, hs(without("iss"))},
		"without subject":          {shared, hs(without("sub"))},
		"subject no id":            {shared, hs(with("sub", "a/b"))},
		"subject a wildcard":       {shared, hs(with("sub", "+"))},
		"subject a number":         {shared, hs(with("sub", 7))},
		"the administrator":        {shared, hs(with("sub", "administrator"))},
		"the bridge":               {shared, hs(with("sub", bridge))},
		"bound to what is unknown": {shared, hs(with("cnf", map[string]string{"jkt": "x"}))},
		"bound to two things":      {shared, hs(with("cnf", map[string]string{"jkt": "x", "x5t#S256": strings.Repeat("A", 43)}))},
		"bound to garbage":         {shared, hs(with("cnf", "x"))},
		"alg none":                 {shared, sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good()) + "AA"},
		"alg None":                 {shared, raw(`{"alg":"None"}`, `{"iss":"issuer"}`)},
		"alg not the issuer's":     {shared, sign(t, jwt.SigningMethodHS512, []byte(secret), good())},
		"alg in two spellings":     {shared, raw(`{"alg":"HS256","ALG":"none"}`, `{"iss":"issuer"}`)},
		"alg twice":                {shared, raw(`{"alg":"none","alg":"HS256"}`, `{"iss":"issuer"}`)},
		"critical extension":       {shared, sign(t, jwt.SigningMethodHS256, []byte(secret), good(), "crit", "b64")},
		"not a token by its type":  {shared, sign(t, jwt.SigningMethodHS256, []byte(secret), good(), "typ", "logout+jwt")},
		"sub twice":                {shared, claims(`{` + usual + `,"sub":"a","sub":"b"}`)},
		"Sub besides sub":          {shared, claims(`{` + usual + `,"sub":"a","Sub":"b"}`)},
		"claims an array":          {shared, claims(`[]`)},
		"claims nested deeply":     {shared, claims(strings.Repeat(`{"a":`, 50) + `1` + strings.Repeat(`}`, 50))},
		"the public key as secret": {ec, sign(t, jwt.SigningMethodHS256, public, good())},
		"RSA where EC is expected": {ec, sign(t, jwt.SigningMethodRS256, rsaKey(), good())},
		"another EC key":           {ec, sign(t, jwt.SigningMethodES256, newEC(), good())},
		"Ed25519 with an EC key":   {ec, sign(t, jwt.SigningMethodEdDSA, ed, good())},
		"a key brought along":      {ec, sign(t, jwt.SigningMethodES256, newEC(), good(), "jku", "http://127.0.0.1:1/")},
		"a key id of no key": {Issuer{Issuer: "issuer", JWKS: file(t, keySetOf(t, jwk(t, "a", ed.Public())))},
			sign(t, jwt.SigningMethodEdDSA, ed, good(), "kid", "b")},
		"RS256 without OpenID Connect": {Issuer{Issuer: "issuer", JWKS: file(t, keySetOf(t, jwk(t, "a", ed.Public()), jwk(t, "r", &rsaKey().PublicKey)))},
			sign(t, jwt.SigningMethodRS256, rsaKey(), good(), "kid", "r")},
		"a shared secret in a key set": {Issuer{Issuer: "issuer", JWKS: file(t, []byte(`{"keys":[{"kty":"oct","kid":"s","k":"`+
			base64.RawURLEncoding.EncodeToString([]byte(secret))+`"},{"kty":"OKP","crv":"Ed25519","x":"`+jwk(t, "", ed.Public())["x"]+`"}]}`))}, hs()},
	} {
		if got, err := verifier(t, test.issuer).Verify(t.Context(), test.token); err == nil || !Invalid(err) {
			t.Errorf("%s: accepted %+v, or refused by %v", name, got, err)
		}
	}
}

func TestClaimsGiveOnlyWhatTheIssuerIsTrustedWith(t *testing.T) {
	base := sharedSecret(t)
	change := func(f func(*Issuer)) Issuer {
		i := base
		f(&i)
		return i
	}
	for name, test := range map[string]struct {
		issuer Issuer
		claims []func(jwt.MapClaims)
		check  func(*protocol.Principal) bool // nil: refused
	}{
		"no roles unless mapped": {base, []func(jwt.MapClaims){with("roles", []string{"administrator"})},
			func(p *protocol.Principal) bool { return len(p.Roles) == 0 }},
		"mapped roles only": {change(func(i *Issuer) { i.RolesClaim, i.Roles = "roles", map[string]string{"device": "end_agent"} }),
			[]func(jwt.MapClaims){with("roles", []string{"device", "administrator"})},
			func(p *protocol.Principal) bool { return slices.Equal(p.Roles, []string{"end_agent"}) }},
		"roles in an object": {change(func(i *Issuer) {
			i.RolesClaim, i.Roles, i.DefaultRoles = "realm.roles", map[string]string{"device": "end_agent"}, []string{"observer"}
		}), []func(jwt.MapClaims){with("realm", map[string]any{"roles": "device other"})},
			func(p *protocol.Principal) bool { return slices.Equal(p.Roles, []string{"observer", "end_agent"}) }},
		"a space that is allowed": {change(func(i *Issuer) { i.SpaceClaim, i.Spaces = "tenant", []protocol.SpaceID{"lab"} }),
			[]func(jwt.MapClaims){with("tenant", "lab")}, func(p *protocol.Principal) bool { return p.Space == "lab" }},
		"a space that is not": {change(func(i *Issuer) { i.SpaceClaim, i.Spaces = "tenant", []protocol.SpaceID{"lab"} }),
			[]func(jwt.MapClaims){with("tenant", "default")}, nil},
		"no space": {change(func(i *Issuer) { i.SpaceClaim, i.Spaces = "tenant", []protocol.SpaceID{"lab"} }), nil, nil},
		"scopes": {change(func(i *Issuer) { i.ScopesClaim = "scope" }), []func(jwt.MapClaims){with("scope", "openid skill:invoke task:*")},
			func(p *protocol.Principal) bool { return slices.Equal(p.Scopes, []string{"skill:invoke", "task:*"}) }},
		"no scopes where they are expected": {change(func(i *Issuer) { i.ScopesClaim = "scope" }), nil,
			func(p *protocol.Principal) bool { return slices.Equal(p.Scopes, []string{noScope}) }},
		"a prefix": {change(func(i *Issuer) { i.IDPrefix = "google." }), []func(jwt.MapClaims){with("sub", "administrator")},
			func(p *protocol.Principal) bool { return p.ID == "google.administrator" }},
		"another claim for the id": {change(func(i *Issuer) { i.IDClaim, i.Kind = "preferred_username", protocol.KindOperator }),
			[]func(jwt.MapClaims){with("preferred_username", "anna")},
			func(p *protocol.Principal) bool { return p.ID == "anna" && p.Kind == protocol.KindOperator }},
	} {
		got, err := verifier(t, test.issuer).Verify(t.Context(), sign(t, jwt.SigningMethodHS256, []byte(secret), good(test.claims...)))
		if (err == nil) != (test.check != nil) || err == nil && !test.check(got.Principal) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestAnIssuerIsConfiguredWithoutContradictions(t *testing.T) {
	shared, short := file(t, []byte(secret)), file(t, []byte("short"))
	rsaPublic, cert := publicPEM(t, &rsaKey().PublicKey), new(certificates).issue(t, "x", ecKey())
	for name, test := range map[string]struct {
		issuer Issuer
		ok     bool
	}{
		"a secret":                   {Issuer{Issuer: "i", Secret: shared}, true},
		"a certificate":              {Issuer{Issuer: "i", Key: file(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))}, true},
		"no name":                    {Issuer{Secret: shared}, false},
		"no keys":                    {Issuer{Issuer: "i"}, false},
		"two sorts of keys":          {Issuer{Issuer: "i", Secret: shared, JWKS: "https://x/keys"}, false},
		"a short secret":             {Issuer{Issuer: "i", Secret: short}, false},
		"a secret that is not there": {Issuer{Issuer: "i", Secret: shared + "x"}, false},
		"an RSA key":                 {Issuer{Issuer: "i", Key: file(t, rsaPublic)}, false},
		"no PEM":                     {Issuer{Issuer: "i", Key: short}, false},
		"keys over plain HTTP":       {Issuer{Issuer: "i", JWKS: "http://example.com/keys"}, false},
		"keys on this machine":       {Issuer{Issuer: "i", JWKS: "http://127.0.0.1:1/keys"}, true},
		"keys by another scheme":     {Issuer{Issuer: "i", JWKS: "ftp://example.com/keys"}, false},
		"a password in the URL":      {Issuer{Issuer: "i", JWKS: "https://a:b@example.com/keys"}, false},
		"discovery without a URL":    {Issuer{Issuer: "i", OIDC: true}, false},
		"discovery":                  {Issuer{Issuer: "https://example.com", OIDC: true, Algorithms: []string{RS256}}, true},
		"HS256 with a public key":    {Issuer{Issuer: "i", JWKS: "https://example.com/keys", Algorithms: []string{HS256}}, false},
		"RS256 without discovery":    {Issuer{Issuer: "i", JWKS: "https://example.com/keys", Algorithms: []string{RS256}}, false},
		"none":                       {Issuer{Issuer: "i", Secret: shared, Algorithms: []string{"none"}}, false},
		"a kind that is none":        {Issuer{Issuer: "i", Secret: shared, Kind: "bridge"}, false},
		"a space claim, no spaces":   {Issuer{Issuer: "i", Secret: shared, SpaceClaim: "s"}, false},
		"a space that is none":       {Issuer{Issuer: "i", Secret: shared, Space: "a/b"}, false},
		"a negative lifetime":        {Issuer{Issuer: "i", Secret: shared, MaxLifetime: -1}, false},
	} {
		if _, err := New(Options{BridgeID: bridge, Issuers: []Issuer{test.issuer}}); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Options{Issuers: []Issuer{{Issuer: "i", Secret: shared}, {Issuer: "i", Secret: shared}}}); err == nil {
		t.Error("one issuer twice")
	}
}

func TestABoundTokenNamesWhatItIsBoundTo(t *testing.T) {
	cert := new(certificates).issue(t, "lamp-1", ecKey())
	got, err := verifier(t, sharedSecret(t)).Verify(t.Context(), sign(t, jwt.SigningMethodHS256, []byte(secret),
		good(with("cnf", map[string]string{"x5t#S256": thumbprint(cert)}))))
	if err != nil || !got.Bound || base64.RawURLEncoding.EncodeToString(got.Thumbprint[:]) != thumbprint(cert) || got.Principal.CertSerial != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAProofShowsThatItsBearerHoldsTheCertificate(t *testing.T) {
	for name, key := range map[string]any{"ECDSA": ecKey(), "Ed25519": newEd(t)} {
		known := &certificates{}
		v, err := New(Options{BridgeID: bridge, Certificates: known})
		if err != nil {
			t.Fatal(err)
		}
		signer := signerOf(key)
		cert := known.issue(t, "lamp-1", signer)
		for i, id := range []string{"lamp-1", "aibridge:agent/lamp-1"} {
			text := sign(t, methodOf(key), key, proofClaims(id, protocol.NewID()), "x5t#S256", thumbprint(cert))
			got, err := v.Verify(t.Context(), text)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if who := got.Principal; who.ID != "lamp-1" || who.CertSerial != "00000000000000A1" || who.Method != protocol.MethodToken || got.Proof != cert ||
				who.Expires.After(time.Now().Add(proofLifetime)) {
				t.Errorf("%s %d: %+v", name, i, got)
			}
			if _, err := v.Verify(t.Context(), text); !Invalid(err) {
				t.Errorf("%s: a replayed proof: %v", name, err)
			}
		}
	}
}

func TestABadProofIsRefused(t *testing.T) {
	known := &certificates{}
	mine := known.issue(t, "lamp-1", ecKey())
	other := newEC()
	others := known.issue(t, "lamp-2", other)
	stranger := new(certificates).issue(t, "lamp-1", other)
	v, err := New(Options{BridgeID: bridge, Certificates: known, Issuers: []Issuer{sharedSecret(t)}})
	if err != nil {
		t.Fatal(err)
	}
	claims := func(change ...func(jwt.MapClaims)) jwt.MapClaims {
		c := proofClaims("lamp-1", protocol.NewID())
		for _, f := range change {
			f(c)
		}
		return c
	}
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	es := jwt.SigningMethodES256
	for name, text := range map[string]string{
		"signed with another key":        sign(t, es, other, claims(), "x5t#S256", thumbprint(mine)),
		"a stranger's certificate":       sign(t, es, other, claims(), "x5t#S256", thumbprint(stranger)),
		"for somebody else":              sign(t, es, other, claims(), "x5t#S256", thumbprint(others)),
		"issuer not the subject":         sign(t, es, ecKey(), claims(with("iss", "lamp-2")), "x5t#S256", thumbprint(mine)),
		"without subject":                sign(t, es, ecKey(), claims(with("iss", ""), with("sub", "")), "x5t#S256", thumbprint(mine)),
		"another audience":               sign(t, es, ecKey(), claims(with("aud", "other")), "x5t#S256", thumbprint(mine)),
		"lasting too long":               sign(t, es, ecKey(), claims(with("exp", in(time.Hour))), "x5t#S256", thumbprint(mine)),
		"expired":                        sign(t, es, ecKey(), claims(with("exp", in(-time.Second))), "x5t#S256", thumbprint(mine)),
		"without jti":                    sign(t, es, ecKey(), claims(without("jti")), "x5t#S256", thumbprint(mine)),
		"jti too long":                   sign(t, es, ecKey(), claims(with("jti", strings.Repeat("x", maxJTI+1))), "x5t#S256", thumbprint(mine)),
		"without iat":                    sign(t, es, ecKey(), claims(without("iat")), "x5t#S256", thumbprint(mine)),
		"from before the start":          sign(t, es, ecKey(), claims(with("iat", v.started.Add(-time.Second).Unix())), "x5t#S256", thumbprint(mine)),
		"another algorithm":              sign(t, jwt.SigningMethodHS256, mine.RawSubjectPublicKeyInfo, claims(), "x5t#S256", thumbprint(mine)),
		"no thumbprint":                  sign(t, es, ecKey(), claims()),
		"garbage for thumbprint":         sign(t, es, ecKey(), claims(), "x5t#S256", "garbage"),
		"in the name of a known issuer":  sign(t, es, ecKey(), claims(with("iss", "issuer"), with("sub", "issuer")), "x5t#S256", thumbprint(mine)),
		"a certificate's name, a secret": sign(t, jwt.SigningMethodHS256, []byte(secret), claims(), "x5t#S256", thumbprint(mine)),
	} {
		if got, err := v.Verify(t.Context(), text); !Invalid(err) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	known.gone = protocol.Errorf(protocol.CertificateRevoked, "revoked")
	if _, err := v.Verify(t.Context(), sign(t, es, ecKey(), claims(), "x5t#S256", thumbprint(mine))); protocol.CodeOf(err) != protocol.CertificateRevoked {
		t.Errorf("revoked: %v", err)
	}
}

func TestTheMemoryForProofsIsBounded(t *testing.T) {
	r, now := newReplays(), time.Now()
	soon := now.Add(time.Minute)
	one, two := [32]byte{1}, [32]byte{2}
	for i := range maxProofsPerCert {
		if got := r.use(one, string(rune(i)), soon, now); got != fresh {
			t.Fatalf("proof %d: %v", i, got)
		}
	}
	if got := r.use(one, "one more", soon, now); got != tooMany {
		t.Errorf("one more: %v", got)
	}
	if got := r.use(two, "a", soon, now); got != fresh {
		t.Errorf("of another certificate: %v", got)
	}
	if got := r.use(one, "later", soon.Add(time.Hour), soon.Add(time.Minute)); got != fresh || len(r.used) != 1 || len(r.count) != 1 {
		t.Errorf("when the others have expired: %v, with %d remembered", got, len(r.used))
	}
}

func proofClaims(id, jti string) jwt.MapClaims {
	now := time.Now()
	return jwt.MapClaims{"iss": id, "sub": id, "aud": bridge, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "jti": jti}
}

func FuzzVerify(f *testing.F) {
	known := &certificates{}
	cert := known.issue(f, "lamp-1", ecKey())
	v, err := New(Options{BridgeID: bridge, Certificates: known, Issuers: []Issuer{sharedSecret(f)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"alg":"HS256"}`, `{"iss":"issuer","sub":"a","aud":"aibridge","exp":4102444800}`)
	f.Add(`{"alg":"none","kid":"x"}`, `{"iss":"issuer","exp":1e400,"cnf":{"x5t#S256":"AA"}}`)
	f.Add(`{"alg":"ES256","x5t#S256":"`+thumbprint(cert)+`"}`, `{"iss":"lamp-1","sub":"lamp-1"}`)
	f.Add(`{"alg":["HS256"]}`, `{"aud":{"a":1},"exp":-1,"nbf":"x"}`)
	f.Fuzz(func(t *testing.T, header, claims string) {
		for _, text := range []string{raw(header, claims), header + "." + claims + ".AAAA", header} {
			got, err := v.Verify(t.Context(), text)
			if err != nil {
				continue
			}
			// The signature is right: then what it says must be, too.
			if !strings.Contains(header, "HS256") || got.Principal.ID == "" || got.Principal.Expires.Before(time.Now()) || got.Principal.CertSerial != "" {
				t.Errorf("%q . %q is %+v", header, claims, got.Principal)
			}
		}
	})
}

func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Add(keySetOf(f, jwk(f, "a", &ecKey().PublicKey), jwk(f, "b", &rsaKey().PublicKey)))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := parseKeySet(data)
		if err == nil && len(keys) == 0 {
			t.Error("no keys and no error")
		}
		for _, k := range keys {
			if k.algorithm == HS256 || k.public == nil {
				t.Errorf("%+v", k)
			}
		}
	})
}
