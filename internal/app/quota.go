package app

import (
	"fmt"
	"net/http"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/quota"
)

// openQuotas makes what keeps count of what everybody takes.
func (a *App) openQuotas() (err error) {
	options := a.config.Quotas.Options(a.config.Dev)
	options.Registerer = a.metrics
	a.quotas, err = quota.New(options)
	if err != nil {
		return fmt.Errorf("quotas: %w", err)
	}
	return nil
}

// authenticateForFiles is who asks for files, which counts as a command.
func (a *App) authenticateForFiles(r *http.Request) (*protocol.Principal, error) {
	who, err := a.authenticate(r)
	if err != nil {
		return nil, err
	}
	if limited := a.quotas.Admit(who, 0); limited != nil {
		return nil, limited
	}
	return who, nil
}

// limiter is what the router asks; nil if nobody is limited, which costs calls
// nothing.
func (a *App) limiter() commands.Limiter {
	if a.quotas.None() {
		return nil
	}
	return a.quotas
}

// enterSocket counts a connection of the API's.
func (a *App) enterSocket(who *protocol.Principal) (leave func(), err *protocol.Error) {
	leave = func() { a.quotas.Disconnect(who) }
	if err := a.quotas.Connect(who); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}
