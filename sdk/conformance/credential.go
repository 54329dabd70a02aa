package conformance

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func credentialClauses() []clause {
	return []clause{
		{name: "credential/refused", where: "docs/protocol.md#codes", says: "a device whose key is refused does not storm the bridge: not more than 50 attempts in two seconds", begins: true, run: acceptsRefusal},
		{name: "credential/token", where: "docs/operations.md#identity", says: "a device shows the token that is in the file AIBRIDGE_TOKEN_FILE, and the newer one in it before the old one expires", begins: true, run: renewsItsToken},
	}
}

func acceptsRefusal(ctx context.Context, s *stage) error {
	if err := s.start("AIBRIDGE_API_KEY=not-this-one"); err != nil {
		return err
	}
	if _, _, err := s.await(ctx, 0, "show the key that AIBRIDGE_API_KEY has", func(x *sighting) bool {
		return x.kind == refused && x.text == "not-this-one"
	}); err != nil {
		return err
	}
	select {
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	if n := s.bridge.record.count(0, isKind(refused)); n > 50 {
		return fmt.Errorf("it showed a refused key %d times in two seconds", n)
	}
	return nil
}

// tokenLife is the time that the first token is good.
const tokenLife = 5 * time.Second

// tokenUntil is a token that says when it expires. Nothing of it is verified
// but that it is the same.
func tokenUntil(expires time.Time) string {
	encode := base64.RawURLEncoding.EncodeToString
	head := encode([]byte(`{"alg":"ES256","typ":"JWT"}`))
	claims := encode(fmt.Appendf(nil, `{"iss":"factory","exp":%d}`, expires.Unix()))
	return head + "." + claims + "." + encode([]byte("signature"))
}

func renewsItsToken(ctx context.Context, s *stage) error {
	first, second := tokenUntil(time.Now().Add(tokenLife)), tokenUntil(time.Now().Add(time.Hour))
	file := filepath.Join(s.state, "token")
	if err := os.WriteFile(file, []byte(first+"\n"), 0o600); err != nil {
		return err
	}
	s.bridge.set(func(b *bridge) { b.tokens = []string{first, second} })
	if err := s.start("AIBRIDGE_TOKEN_FILE="+file, "AIBRIDGE_API_KEY="); err != nil {
		return err
	}
	_, seen, err := s.await(ctx, 0, "connect", func(x *sighting) bool { return x.kind == authenticated || x.kind == refused })
	if err != nil {
		return err
	}
	if seen.kind == refused {
		return skip("the device does not take a token from AIBRIDGE_TOKEN_FILE")
	}
	if err := s.serving(ctx, 0); err != nil {
		return err
	}
	if err := replace(file, second+"\n"); err != nil {
		return err
	}
	place, _, err := s.await(ctx, 0, "show the newer token that is in AIBRIDGE_TOKEN_FILE", func(x *sighting) bool {
		return x.kind == authenticated && x.text == second
	})
	if err != nil {
		return err
	}
	if _, _, err := s.await(ctx, place, "stay, or listen again, with the newer token", func(x *sighting) bool {
		return x.kind == renewed || x.kind == listening
	}); err != nil {
		return err
	}
	return s.echo(ctx)
}

// replace writes a file at once: whoever reads it sees no half of it.
func replace(file, text string) error {
	beside := file + ".new"
	if err := os.WriteFile(beside, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(beside, file)
}
