package token

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// fetchTimeout bounds fetching keys, discovery included.
const fetchTimeout = 10 * time.Second

// errRedirect: a key set that moved is for the configuration to follow.
var errRedirect = errors.New("redirected, which is not followed")

// newHTTPClient fetches keys: over TLS but from this machine, without
// following redirects, and never more than a key set may have.
func newHTTPClient(ca string) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	transport.MaxIdleConns, transport.IdleConnTimeout = 1, 10*time.Second
	transport.ResponseHeaderTimeout = fetchTimeout
	transport.DisableKeepAlives = true
	if ca != "" {
		data, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s holds no certificate", ca)
		}
		transport.TLSClientConfig.RootCAs = roots
	}
	return &http.Client{
		Transport:     bounded{transport},
		Timeout:       fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}, nil
}

// bounded cuts answers to a size no honest one has.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := checkURL(r.URL.String()); err != nil { // discovery may have named it
		return nil, err
	}
	response, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxKeySet+1), response.Body}
	return response, nil
}

// fromURL fetches a key set.
func fromURL(client *http.Client, url string) func(context.Context) ([]key, error) {
	return func(ctx context.Context) ([]key, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Accept", "application/jwk-set+json, application/json")
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answers %s", url, response.Status)
		}
		data, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, err
		}
		if len(data) > maxKeySet {
			return nil, fmt.Errorf("%s answers with more than %d bytes", url, maxKeySet)
		}
		return parseKeySet(data)
	}
}

// fromDiscovery finds out where an OpenID Connect issuer has its keys, which
// checks that it is the issuer, and fetches them there. Where they are is asked
// again when they cannot be fetched.
func fromDiscovery(client *http.Client, issuer string) func(context.Context) ([]key, error) {
	var known atomic.Pointer[string]
	return func(ctx context.Context) ([]key, error) {
		at := known.Load()
		if at == nil {
			provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), issuer)
			if err != nil {
				return nil, err
			}
			var found struct {
				JWKS string `json:"jwks_uri"`
			}
			if err := provider.Claims(&found); err != nil {
				return nil, err
			}
			at = &found.JWKS
		}
		keys, err := fromURL(client, *at)(ctx)
		if err != nil {
			known.Store(nil)
			return nil, err
		}
		known.Store(at)
		return keys, nil
	}
}
