package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
)

// methodToken is the method of enhanced authentication by which a token is
// shown and renewed.
const methodToken = "JWT"

// The renewal of a token.
const (
	reauthenticate = 0x19             // reason code of the AUTH that begins it
	renewSoonest   = time.Second      // after the last time
	renewRetry     = 10 * time.Second // after a failure
	tokenTimeout   = 10 * time.Second // for the source to yield one
)

// A TokenSource yields a JSON Web Token. It is asked before every connection,
// and again before the token expires.
type TokenSource func(ctx context.Context) (string, error)

// StaticToken is the source of one token that cannot be renewed.
func StaticToken(token string) TokenSource {
	return func(context.Context) (string, error) { return token, nil }
}

// WithToken shows a token to the bridge, and renews it on the same connection
// before it expires, if the source has a newer one by then.
func WithToken(source TokenSource) Option { return func(o *options) { o.token = source } }

// showToken puts a token into CONNECT, which has properties.
func (c *Client) showToken(packet *paho.Connect) (*paho.Connect, error) {
	token, err := c.nextToken(c.ctx)
	if err != nil {
		return nil, err
	}
	packet.Properties.AuthMethod, packet.Properties.AuthData = methodToken, []byte(token)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokenExpires = expiry(token)
	return packet, nil
}

func (c *Client) nextToken(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	return c.options.token(ctx)
}

// renewToken shows new tokens until the connection ends. The first is due when four
// fifths of the remaining life of the old one are over.
func (c *Client) renewToken(m *autopaho.ConnectionManager, l *connection) {
	c.mu.Lock()
	expires := c.tokenExpires
	c.mu.Unlock()
	for !expires.IsZero() {
		if sleep(l.ctx, max(time.Until(expires)*4/5, renewSoonest)) != nil {
			return
		}
		token, err := c.nextToken(l.ctx)
		if err == nil && !expiry(token).After(expires) {
			if time.Now().After(expires) {
				return // the bridge ends the connection
			}
			continue // there is no newer one yet
		}
		if err == nil {
			_, err = m.Authenticate(l.ctx, &paho.Auth{ReasonCode: reauthenticate,
				Properties: &paho.AuthProperties{AuthMethod: methodToken, AuthData: []byte(token)}})
		}
		if err != nil {
			c.log.Warn("token not renewed", "error", err)
			if sleep(l.ctx, renewRetry) != nil {
				return
			}
			continue
		}
		expires = expiry(token)
	}
}

// expiry is the time when a token says that it expires, zero if it does not say. It is
// not for the client to verify it.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var c struct {
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(claims, &c) != nil || c.Expires <= 0 || c.Expires > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(c.Expires), 0)
}

// tokenHandler handles the steps of enhanced authentication. The token in CONNECT
// is enough for the bridge, so there are no further ones.
type tokenHandler struct{}

func (tokenHandler) Authenticate(a *paho.Auth) *paho.Auth { return a }
func (tokenHandler) Authenticated()                       {}
