package site

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Door is the door of calls of the centre, in audit and quotas.
const Door = "site"

// A Router runs commands.
type Router interface {
	Handle(ctx context.Context, in commands.Inbound) *protocol.Response
}

// Options configure a [Site]. All but Registerer are needed.
type Options struct {
	Join
	Have   []Have // sites of this bridge, which are not shown
	Router func() Router
	// Authenticate yields the principal of an API key here; "" fails, except with
	// dev.
	Authenticate func(ctx context.Context, key string) (*protocol.Principal, error)
	// Reported is the state that an agent has reported of a skill.
	Reported func(space protocol.SpaceID, agent protocol.AgentID, skill protocol.SkillID) (json.RawMessage, bool)
	// LocalFiles are the files of a group of this bridge, as a principal may read them.
	LocalFiles func(ctx context.Context, who *protocol.Principal, group string) (vfs.Files, error)
	// Carry has the messages of some Caps carried to the centre and from it, and of no
	// others. It does not block.
	Carry      func(caps []protocol.CapID)
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// A Site is this bridge as a site of another one.
type Site struct {
	Options
	metrics *metrics
	wake    chan struct{}
	changes fileChanges

	mu        sync.Mutex
	state     State
	since     time.Time
	problem   string
	running   bool
	space     protocol.SpaceID  // of the principal that the centre's calls are made for, "" until that is known
	centre    *client.Client    // nil without one
	told      int               // that are registered at the centre
	complains map[string]string // why something is not shown, by its name there
}

// A State is the state of a site's connection to its centre.
type State string

// The states of a site.
const (
	Connecting State = "connecting"
	Connected  State = "connected"
	Down       State = "down" // tried in vain, or lost; is tried again
)

// New makes a site, which does nothing before [Site.Run].
func New(o Options) *Site {
	s := &Site{Options: o, wake: make(chan struct{}, 1), state: Connecting, since: time.Now(), complains: map[string]string{}}
	s.changes.wake = make(chan struct{}, 1)
	s.metrics = newMetrics(s)
	return s
}

// Stir has the site look for changes to show. It does not block.
func (s *Site) Stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Pauses between attempts to connect, and between looks at everything although
// nothing has been heard of.
const (
	firstPause = time.Second
	lastPause  = time.Minute
	lookEvery  = 30 * time.Second
	retryEvery = 2 * time.Second       // after a look that failed
	stirs      = 50 * time.Millisecond // within which changes are looked at together
	patience   = 30 * time.Second      // of one look, and of connecting
)

// Run keeps the agents of this bridge registered at the centre until ctx ends. They
// stay registered there, and are offline from then on.
func (s *Site) Run(ctx context.Context) error {
	s.runs(true)
	defer s.runs(false)
	var files sync.WaitGroup
	defer files.Wait()
	files.Go(func() { s.followFiles(ctx) })
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := s.connect(ctx)
		if ctx.Err() != nil {
			break
		}
		s.becomes(Down, err)
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, lastPause)
	}
	return nil
}

// connect shows the site's agents to the centre until the client of the centre
// ends, which restores lost connections itself.
func (s *Site) connect(ctx context.Context) error {
	options, err := s.options()
	if err != nil {
		return err
	}
	dialling, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := client.Dial(dialling, s.URL, options...)
	if err != nil {
		return err
	}
	s.has(c)
	defer func() {
		s.has(nil)
		_ = c.Close()
	}()
	s.becomes(Connected, nil)
	s.Log.Info("site is connected to its centre", "site", s.Name, "centre", s.URL)
	shown, asked := newShown(s, c), newAsked(s, c)
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	look := time.NewTimer(lookEvery)
	defer look.Stop()
	for {
		looking, done := context.WithTimeout(ctx, patience)
		err := shown.settle(looking)
		if err == nil {
			err = asked.settle(looking)
		}
		done()
		if ctx.Err() == nil {
			s.looked(err)
		}
		if look.Reset(lookEvery); err != nil {
			look.Reset(retryEvery)
		}
		if err := s.rests(ctx, asked, ask.C, look.C, c); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// rests waits for the time of the next look at everything, and meanwhile asks the centre about
// approvals that wait. The error is that the client of the centre has ended.
func (s *Site) rests(ctx context.Context, asked *asked, ask, look <-chan time.Time, c *client.Client) error {
	for {
		select {
		case <-s.wake:
			s.pauses(ctx, stirs)
			return nil
		case <-look:
			return nil
		case <-ask:
			if len(asked.open) == 0 || !c.Connected() {
				continue
			}
			asking, done := context.WithTimeout(ctx, patience)
			err := asked.settle(asking)
			done()
			if err != nil && ctx.Err() == nil {
				s.Log.Debug("the centre does not say how approvals stand", "site", s.Name, "error", err)
			}
		case <-c.Done():
			return errors.Join(errors.New("the connection to the centre has ended"), c.Err())
		case <-ctx.Done():
			return nil
		}
	}
}

// pauses waits for further changes at about the same time.
func (s *Site) pauses(ctx context.Context, within time.Duration) {
	select {
	case <-time.After(within):
	case <-ctx.Done():
	}
}

// has notes the client of the centre.
func (s *Site) has(c *client.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.centre = c
}

// options are those of the connection to the centre: the key and the roots are read anew every time.
func (s *Site) options() ([]client.Option, error) {
	key, err := secret(s.Key)
	if err != nil {
		return nil, fmt.Errorf("key_file: %w", err)
	}
	options := []client.Option{client.WithClientID("site-" + s.Name), client.WithLogger(s.Log)}
	if key != "" {
		options = append(options, client.WithAPIKey(key))
	}
	if s.CA == "" {
		return options, nil
	}
	trusted, err := s.trusted()
	if err != nil {
		return nil, err
	}
	return append(options, client.WithTLS(trusted)), nil
}

// trusted trusts the roots that are given for the centre.
func (s *Site) trusted() (*tls.Config, error) {
	roots, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(roots) {
		return nil, fmt.Errorf("ca: no certificate in %s", s.CA)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// looked notes how a look at everything went: a centre that does not answer is down,
// though its connection may come back by itself.
func (s *Site) looked(err error) {
	if err != nil {
		s.becomes(Down, err)
		return
	}
	s.becomes(Connected, nil)
}

// becomes notes a state. The same reason is logged once.
func (s *Site) becomes(state State, err error) {
	problem := ""
	if err != nil {
		problem = protocol.AsError(err).Message
		if protocol.CodeOf(err) == protocol.Internal {
			problem = err.Error()
		}
	}
	s.mu.Lock()
	news := s.state != state || s.problem != problem
	if s.state != state {
		s.state, s.since = state, time.Now()
	}
	s.problem = problem
	s.mu.Unlock()
	if news && err != nil {
		s.Log.Warn("site has no centre at the moment", "site", s.Name, "centre", s.URL, "error", problem)
	}
}

// complain notes why something is not shown at the centre, nil that it is. The same
// reason is logged once.
func (s *Site) complain(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.complains, name)
		return
	}
	if why := err.Error(); s.complains[name] != why {
		s.complains[name] = why
		s.Log.Warn("not shown at the centre", "site", s.Name, "name", name, "error", why)
	}
}
