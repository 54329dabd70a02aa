package security

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/password"
)

// onePassword is everybody's.
type onePassword struct{ judged int }

func (p *onePassword) Verify(_ context.Context, l password.Login) (*protocol.Principal, error) {
	p.judged++
	if l.Password != "right" {
		return nil, password.ErrWrong
	}
	return &protocol.Principal{Kind: protocol.KindAgent, ID: l.User, Space: protocol.DefaultSpace, Method: protocol.MethodPassword}, nil
}

func (*onePassword) Stands(*protocol.Principal) bool { return true }

// TestPasswordsAreNotFoundByTrying has somebody guess: by then not even the right
// password is let in, until the wait is over, nor from where the guesses come
// from another, nor for the same user from elsewhere. A device that was at home
// there stays in.
func TestPasswordsAreNotFoundByTrying(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		passwords := new(onePassword)
		a := NewAuthenticator(AuthenticatorOptions{Keys: openRing(t, t.TempDir(), recordstest.New[Key]()), Passwords: passwords})
		try := func(user, word, from string) protocol.Code {
			_, err := a.Password(t.Context(), Shown{From: netip.MustParseAddr(from)}, user, []byte(word))
			return protocol.CodeOf(err)
		}
		const attacker, elsewhere, home = "192.0.2.1", "192.0.2.2", "192.0.2.3"
		for _, at := range []string{attacker, home} {
			if code := try("regular", "right", at); code != "" {
				t.Fatal(code)
			}
		}
		for range freeFailures {
			if code := try("lamp", "wrong", attacker); code != protocol.CredentialInvalid {
				t.Fatalf("a wrong password is answered %s", code)
			}
		}
		before := passwords.judged
		for _, test := range []struct {
			user, from string
			want       protocol.Code
		}{
			{"lamp", attacker, protocol.RateLimited},
			{"lamp", elsewhere, protocol.RateLimited},
			{"other", attacker, protocol.RateLimited},
			{"other", elsewhere, ""},
			{"regular", attacker, ""},
			{"regular", attacker, ""}, // it was right, and stays a regular
			{"regular", home, ""},
		} {
			if code := try(test.user, "right", test.from); code != test.want {
				t.Errorf("the right password of %s from %s: %q, want %q", test.user, test.from, code, test.want)
			}
		}
		if judged := passwords.judged - before; judged != 4 {
			t.Errorf("%d passwords were looked at", judged)
		}
		if code := try("regular", "wrong", attacker); code != protocol.RateLimited {
			t.Errorf("a neighbour's guess: %q", code)
		}
		if code := try("regular", "right", attacker); code != protocol.RateLimited {
			t.Errorf("and the next: %q", code)
		}
		time.Sleep(waitFor) // in the bubble's time
		if code := try("lamp", "right", attacker); code != "" {
			t.Errorf("after the wait: %q", code)
		}
	})
}

func TestRegularsAreForgottenRatherThanTooMany(t *testing.T) {
	r := new(regulars)
	for i := range maxRemembered + 100 {
		r.add(regular(address(i), "lamp"))
	}
	if n := len(r.known); n != maxRemembered {
		t.Errorf("remembers %d", n)
	}
}

// slowPasswords are all wrong, and looked at until release is closed.
type slowPasswords struct {
	judged  atomic.Int64
	release chan struct{}
}

func (p *slowPasswords) Verify(context.Context, password.Login) (*protocol.Principal, error) {
	p.judged.Add(1)
	<-p.release
	return nil, password.ErrWrong
}

func (*slowPasswords) Stands(*protocol.Principal) bool { return true }

// TestManyGuessesAtATimeGetNoFurther has somebody guess a hundred times at once:
// from one address under many names, and from many addresses under one.
func TestManyGuessesAtATimeGetNoFurther(t *testing.T) {
	for name, guess := range map[string]func(i int) (user string, from netip.Addr){
		"one address": func(i int) (string, netip.Addr) { return fmt.Sprint("lamp-", i), address(1) },
		"one user":    func(i int) (string, netip.Addr) { return "lamp", address(i) },
	} {
		bubble.Test(t, func(t *testing.T) {
			passwords := &slowPasswords{release: make(chan struct{})}
			a := NewAuthenticator(AuthenticatorOptions{Keys: openRing(t, t.TempDir(), recordstest.New[Key]()), Passwords: passwords})
			codes := make(chan protocol.Code, 100)
			for i := range cap(codes) {
				go func() {
					user, from := guess(i)
					_, err := a.Password(t.Context(), Shown{From: from}, user, []byte("wrong"))
					codes <- protocol.CodeOf(err)
				}()
			}
			synctest.Wait()
			close(passwords.release)
			answers := make(map[protocol.Code]int)
			for range cap(codes) {
				answers[<-codes]++
			}
			if n := passwords.judged.Load(); n != freeFailures {
				t.Errorf("%s: %d passwords were looked at", name, n)
			}
			if want := map[protocol.Code]int{protocol.CredentialInvalid: freeFailures, protocol.RateLimited: cap(codes) - freeFailures}; !maps.Equal(answers, want) {
				t.Errorf("%s: the answers are %v, want %v", name, answers, want)
			}
		})
	}
}

// TestManyRightPasswordsAtATimeAreLetIn has a site with many devices come back at once.
func TestManyRightPasswordsAtATimeAreLetIn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := NewThrottle(time.Now)
		let := make(chan error, 10*freeFailures)
		for i := range cap(let) {
			go func() {
				user := fmt.Sprint("lamp-", i)
				done, err := th.Guess(t.Context(), address(1), user)
				if err == nil {
					time.Sleep(time.Second) // in the bubble's time: the check takes long
					th.Guessed(address(1), user)
					done()
				}
				let <- err
			}()
		}
		for range cap(let) {
			if err := <-let; err != nil {
				t.Fatal(err)
			}
		}
		if n := len(th.addresses.offenders) + len(th.names.offenders); n != 0 {
			t.Errorf("%d offenders are remembered where nobody failed", n)
		}
	})
}

// TestAGuessGivesUpWithItsConnection has all the failures be on their way.
func TestAGuessGivesUpWithItsConnection(t *testing.T) {
	th := NewThrottle(time.Now)
	for range freeFailures {
		if _, err := th.Guess(t.Context(), address(1), "lamp"); err != nil {
			t.Fatal(err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := th.Guess(gone, address(1), "lamp"); protocol.CodeOf(err) != protocol.RateLimited {
		t.Error(err)
	}
}
