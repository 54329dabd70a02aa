package security

import (
	"testing"
	"time"
)

func TestAnAccessKeyStandsForItsAPIKeyAndEndsWithIt(t *testing.T) {
	h := newKeyHouse(t)
	with, without := h.make(t, KeyCreateParams{Principal: "backup", S3: true}), h.make(t, KeyCreateParams{Principal: "lamp"})
	if without.AccessKey != "" || without.AccessSecret != "" || with.AccessKey != keyPrefix+with.ID || len(with.AccessSecret) != 43 || !with.S3 {
		t.Fatalf("made are %+v and %+v", with, without)
	}
	knows := func(access, secret string) bool {
		who, ok := h.Ring.recogniseAccess(access, func(known string) bool { return known == secret })
		return ok && who.ID == "backup" && who.Credential == with.ID
	}
	if !knows(with.AccessKey, with.AccessSecret) {
		t.Fatal("it opens nothing")
	}
	key, _, _ := h.keys.Get(without.ID)
	for what, pair := range map[string][2]string{
		"another secret":     {with.AccessKey, with.Secret},
		"no access key":      {keyPrefix + without.ID, accessSecret(h.Ring.peppers.file, key.ID, key.MAC)},
		"an unknown one":     {keyPrefix + "0000000000000000", with.AccessSecret},
		"an id of no form":   {with.ID, with.AccessSecret},
		"an id that is long": {with.AccessKey + "0", with.AccessSecret},
		"nothing":            {"", ""},
	} {
		if knows(pair[0], pair[1]) {
			t.Errorf("%s opens something", what)
		}
	}
	if _, err := h.Revoke(t.Context(), by(admin), KeyRevokeParams{ID: with.ID, Reason: "lost"}); err != nil {
		t.Fatal(err)
	}
	if knows(with.AccessKey, with.AccessSecret) {
		t.Error("it outlives its key")
	}
	short := h.make(t, KeyCreateParams{Principal: "backup", S3: true, ExpiresIn: 1})
	h.Ring.now = func() time.Time { return time.Now().Add(time.Hour) }
	if _, ok := h.Ring.recogniseAccess(short.AccessKey, func(s string) bool { return s == short.AccessSecret }); ok {
		t.Error("it outlives its time")
	}
}
