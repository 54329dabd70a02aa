package password

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Login is the credentials that a client shows.
type Login struct {
	User, Password string
	Client         string     // MQTT client id
	From           netip.Addr // zero if it is not known
}

// A Service yields the principal of a user name and a password.
type Service struct {
	settings Settings
	file     *file    // nil for none
	web      *service // nil for none
	log      *slog.Logger
}

// Open returns the service of the settings, nil if they name neither a file nor a
// service.
func Open(c Settings, log *slog.Logger) (*Service, error) {
	if c.None() {
		return nil, nil
	}
	s := &Service{settings: c, log: log}
	if c.File != "" {
		var err error
		if s.file, err = openFile(c.File, log); err != nil {
			return nil, fmt.Errorf("passwords.file: %w", err)
		}
	}
	if c.HTTP.URL != "" {
		s.web = newService(c.HTTP)
	}
	return s, nil
}

// Run follows the file until ctx ends. changed is called when users may have been
// removed, or have another password.
func (s *Service) Run(ctx context.Context, changed func()) error {
	if s.file != nil {
		s.file.follow(ctx, changed, s.log)
	}
	<-ctx.Done()
	if s.web != nil {
		s.web.client.CloseIdleConnections()
	}
	return nil
}

// Marks of credentials: the source that has the user.
const (
	inFile = "file:"
	byWeb  = "http:"
)

// ErrWrong is for a wrong user name or password.
var ErrWrong = errors.New("the user name or the password is wrong")

// ErrWrongPassword is [ErrWrong] for a user that exists. Clients must not learn the
// difference.
var ErrWrongPassword = fmt.Errorf("%w: there is the user", ErrWrong)

// Verify returns the principal that a user name and a password stand for: an agent
// with the id of the user name. It fails with [ErrWrong], or with 4006 if the
// service cannot be reached.
func (s *Service) Verify(ctx context.Context, l Login) (*protocol.Principal, error) {
	if protocol.AgentID("").Rule().Check(l.User) != "" {
		return nil, ErrWrong
	}
	if s.file != nil {
		switch u, known, right := s.file.verify(l.User, l.Password); {
		case right:
			return s.principal(l.User, inFile+u.mark, s.settings.roles()), nil
		case known:
			return nil, ErrWrongPassword
		case s.web == nil:
			return nil, ErrWrong
		}
	}
	verdict, err := s.web.ask(ctx, l)
	if err != nil {
		s.log.Warn("the service for passwords cannot be asked", "error", err)
		return nil, protocol.Errorf(protocol.TargetUnavailable, "passwords cannot be checked now")
	}
	if !verdict.allowed {
		return nil, ErrWrong
	}
	roles := s.settings.roles()
	if verdict.superuser && len(s.settings.HTTP.SuperuserRoles) > 0 {
		roles = s.settings.HTTP.SuperuserRoles
	}
	who := s.principal(l.User, byWeb+l.User, roles)
	who.Expires = verdict.expires
	return who, nil
}

// Party is the party that a user is.
func Party(user string) protocol.Party { return protocol.AgentID(user).Party(protocol.DefaultSpace) }

// Known reports whether the file has a user.
func (s *Service) Known(user string) bool {
	if s.file == nil {
		return false
	}
	_, known := s.file.users.Load().named[user]
	return known
}

func (s *Service) principal(user, credential string, roles []string) *protocol.Principal {
	is := Party(user)
	return &protocol.Principal{
		Kind: is.Kind, ID: is.ID, Space: is.Space, Roles: roles, Credential: credential, Method: protocol.MethodPassword,
	}
}

// Stands reports whether a credential that was shown still counts: whether the file has
// the user with the same password. An answer of the service counts until it
// expires.
func (s *Service) Stands(who *protocol.Principal) bool {
	mark, ok := strings.CutPrefix(who.Credential, inFile)
	if !ok {
		return s.web != nil && strings.HasPrefix(who.Credential, byWeb)
	}
	if s.file == nil {
		return false
	}
	u, known := s.file.users.Load().named[who.ID]
	return known && u.mark == mark
}

// A verdict is the service's answer about a login.
type verdict struct {
	allowed, superuser bool
	expires            time.Time // zero never
}
