package link

import (
	"context"
	"reflect"
)

// Carry gives a guided link its rules, in place of those that it has. It makes its
// connections anew if they differ, or if a broker has refused a filter, and does not
// block. A link that never had rules is not connected.
func (s *Service) Carry(name string, rules Rules) {
	l := s.link(name)
	if l == nil || !l.config.Guided {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := &Rules{l.config.Out, l.config.In}
	if l.given != nil {
		now = l.given
	}
	if reflect.DeepEqual(now, &rules) && len(l.refuses[0])+len(l.refuses[1]) == 0 {
		return
	}
	l.given = &rules
	select {
	case l.guide <- struct{}{}:
	default:
	}
}

// remember gives a guided link the rules that it had before a restart, as long as it
// has no others: what waits for the remote broker goes on being kept for it.
func (l *Link) remember() {
	if !l.config.Guided {
		return
	}
	before, _, _ := l.service.Records.Get(l.config.Name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if before != nil && before.Rules != nil && l.given == nil && len(l.config.Out)+len(l.config.In) == 0 {
		l.given = before.Rules
	}
}

// directed waits until the link has rules, and takes those that were given last; none
// are taken, too, so that both sessions unsubscribe. It reports whether it has any
// before ctx ends.
func (l *Link) directed(ctx context.Context) bool {
	for {
		l.take()
		before, _, _ := l.service.Records.Get(l.config.Name)
		if !l.config.Guided || before != nil || len(l.config.Out)+len(l.config.In) > 0 {
			return true
		}
		l.becomes(Connecting, "")
		select {
		case <-l.guide:
		case <-ctx.Done():
			return false
		}
	}
}

// take takes the rules that were given last.
func (l *Link) take() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.given != nil {
		l.config.Out, l.config.In, l.given = l.given.Out, l.given.In, nil
	}
}

// follow has the link carry messages until one of its connections ends, or until it
// was given other rules, which it reports.
func (l *Link) follow(ctx context.Context) (err error, anew bool) {
	carrying, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- l.connect(carrying) }()
	for {
		select {
		case err = <-ended:
			return err, false
		case <-l.guide:
		}
		if l.isGiven() {
			stop()
			return <-ended, true
		}
	}
}

// isGiven reports whether there are rules that the link has not taken yet.
func (l *Link) isGiven() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.given != nil
}

// rules are those that the link has at the moment.
func (l *Link) rules() Rules {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Rules{l.config.Out, l.config.In}
}

// kept are the rules that outlive a restart: those that no file has.
func (l *Link) kept() *Rules {
	if !l.config.Guided {
		return nil
	}
	return &Rules{l.config.Out, l.config.In}
}

// reserved is the first level of topics that the link does not carry, whatever its
// rules are; "" where they may be the bridge's own.
func (l *Link) reserved() string {
	if l.config.Guided {
		return ""
	}
	return l.service.Root
}
