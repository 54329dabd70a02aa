package password

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

const (
	mostAnswer     = 64 << 10 // bytes of an answer that are read
	mostRemembered = 10_000   // logins
	mostAsking     = 64       // connections to the service
)

// A service is one that is asked over HTTP.
type service struct {
	settings      HTTPSettings
	authorization string
	client        *http.Client
	secret        []byte // of the hashes under which answers are remembered: passwords are not kept
	now           func() time.Time

	mu         sync.Mutex
	remembered map[[sha256.Size]byte]memory
}

type memory struct {
	verdict verdict
	until   time.Time
}

func newService(c HTTPSettings) *service {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return &service{
		settings: c, authorization: os.Getenv(c.AuthorizationEnv), secret: secret, now: time.Now, remembered: make(map[[sha256.Size]byte]memory),
		client: &http.Client{
			Timeout:       c.timeout(),
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: mostAsking, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // passwords go to no other address
		},
	}
}

// ask returns the verdict on a login. A no is not remembered: the next one may be
// right.
func (s *service) ask(ctx context.Context, l Login) (verdict, error) {
	key := s.key(l)
	if v, ok := s.recall(key); ok {
		return v, nil
	}
	request, err := s.request(ctx, l)
	if err != nil {
		return verdict{}, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		var failed *url.Error // whose text has the address, in which the password may be
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return verdict{}, err
	}
	defer func() { _ = response.Body.Close() }()
	v, err := judge(response)
	if err == nil && v.allowed {
		s.remember(key, v)
	}
	return v, err
}

func (s *service) request(ctx context.Context, l Login) (*http.Request, error) {
	fields := map[string]string{"clientid": l.Client, "username": l.User, "password": l.Password}
	if l.From.IsValid() {
		fields["peerhost"] = l.From.Unmap().String()
	}
	var request *http.Request
	var err error
	if s.settings.Method == "get" {
		u, bad := url.Parse(s.settings.URL)
		if bad != nil {
			return nil, bad
		}
		query := u.Query()
		for name, value := range fields {
			query.Set(name, value)
		}
		u.RawQuery = query.Encode()
		request, err = http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	} else {
		body, bad := json.Marshal(fields)
		if bad != nil {
			return nil, bad
		}
		request, err = http.NewRequestWithContext(ctx, http.MethodPost, s.settings.URL, bytes.NewReader(body))
	}
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	if request.Body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if s.authorization != "" {
		request.Header.Set("Authorization", s.authorization)
	}
	return request, nil
}

// judge reads an answer: allow, deny, or ignore, which counts as deny, as there is
// no further service to ask. Any other answer is a failure.
func judge(r *http.Response) (verdict, error) {
	switch r.StatusCode {
	case http.StatusNoContent:
		return verdict{allowed: true}, nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return verdict{}, nil
	case http.StatusOK:
	default:
		return verdict{}, fmt.Errorf("the service answers with status %d", r.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, mostAnswer+1))
	if err != nil {
		return verdict{}, err
	}
	var answer struct {
		Result    string `json:"result"`
		Superuser bool   `json:"is_superuser"`
		ExpireAt  int64  `json:"expire_at"` // Unix seconds
	}
	if len(body) > mostAnswer || json.Unmarshal(body, &answer) != nil {
		return verdict{}, errors.New("the answer of the service is not JSON with result")
	}
	switch answer.Result {
	case "allow":
		v := verdict{allowed: true, superuser: answer.Superuser}
		if answer.ExpireAt > 0 {
			v.expires = time.Unix(answer.ExpireAt, 0)
		}
		return v, nil
	case "deny", "ignore":
		return verdict{}, nil
	}
	return verdict{}, errors.New("the answer of the service is neither allow, deny nor ignore")
}

// key stands for a login in memory.
func (s *service) key(l Login) (key [sha256.Size]byte) {
	d := hmac.New(sha256.New, s.secret)
	_ = json.NewEncoder(d).Encode([]string{l.Client, l.User, l.Password, l.From.String()})
	d.Sum(key[:0])
	return key
}

func (s *service) recall(key [sha256.Size]byte) (verdict, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.remembered[key]
	now := s.now()
	if !ok || !now.Before(m.until) || !m.verdict.expires.IsZero() && !now.Before(m.verdict.expires) {
		delete(s.remembered, key)
		return verdict{}, false
	}
	return m.verdict, true
}

// remember keeps a verdict. When there are too many, any other one is forgotten.
func (s *service) remember(key [sha256.Size]byte, v verdict) {
	if s.settings.CacheSeconds == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.remembered) >= mostRemembered {
		for other := range s.remembered {
			delete(s.remembered, other)
			break
		}
	}
	s.remembered[key] = memory{v, s.now().Add(s.settings.keep())}
}
