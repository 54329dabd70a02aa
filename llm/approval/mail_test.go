package approval

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A post office is a mail server that takes letters.
type postOffice struct {
	address string
	secure  *tls.Config // nil offers no STARTTLS
	refuse  int         // letters that it has no time for

	mu      sync.Mutex
	letters chan received
}

type received struct {
	auth, from string
	to         []string
	text       string
}

func openPostOffice(t *testing.T, secure *tls.Config) *postOffice {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &postOffice{address: l.Addr().String(), secure: secure, letters: make(chan received, 16)}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { o.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return o
}

// serve talks as much SMTP as the bridge does.
func (o *postOffice) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	say := func(format string, args ...any) { fmt.Fprintf(conn, format+"\r\n", args...) }
	say("220 post office")
	var r received
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch strings.ToUpper(verb) {
		case "EHLO":
			if _, encrypted := conn.(*tls.Conn); o.secure != nil && !encrypted {
				say("250-post office\r\n250 STARTTLS")
			} else {
				say("250-post office\r\n250 AUTH PLAIN")
			}
		case "STARTTLS":
			if o.secure == nil {
				say("502 what?")
				continue
			}
			say("220 go on")
			conn = tls.Server(conn, o.secure)
			in = bufio.NewReader(conn)
		case "AUTH":
			raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
			r.auth = strings.ReplaceAll(string(raw), "\x00", " ")
			say("235 welcome")
		case "MAIL":
			if o.busy() {
				say("451 later")
				continue
			}
			r.from = rest
			say("250 ok")
		case "RCPT":
			r.to = append(r.to, rest)
			say("250 ok")
		case "DATA":
			say("354 go on")
			for {
				line, err := in.ReadString('\n')
				if err != nil || line == ".\r\n" {
					break
				}
				r.text += line
			}
			say("250 taken")
			o.letters <- r
		case "QUIT":
			say("221 bye")
			return
		default:
			say("502 what?")
		}
	}
}

func (o *postOffice) busy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refuse--
	return o.refuse >= 0
}

func grantOf(id string) grant.Grant { return grant.Of(person(id)) }

func address(text string) mail.Address { return mail.Address{Address: text} }

// mailing is a desk with e-mails.
func mailing(t *testing.T, m *Mailer, change ...func(*Options)) *desk {
	t.Helper()
	d := newDesk(t, append(change, func(o *Options) { o.Mail, o.Console = m, "https://bridge.example/" })...)
	d.mail.pause = time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { d.mail.run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return d
}

func TestPeopleAreToldByMail(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	// The certificate is for 127.0.0.1 and example.com.
	secure := &tls.Config{Certificates: server.TLS.Certificates}
	for name, m := range map[string]*Mailer{
		"starttls": {TLS: StartTLS, Roots: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, Username: "bridge", Password: "topsecret"},
		"clear":    {TLS: ClearText},
	} {
		t.Run(name, func(t *testing.T) {
			office := openPostOffice(t, secure)
			office.refuse = 2
			m.Server, m.From, m.To = office.address, address("bridge@example.com"), []mail.Address{address("desk@example.com"), address("night@example.com")}
			d := mailing(t, m)
			x := heat(bot)
			x.ArgumentsJSON = json.RawMessage(`{"at":"door\r\n.\r\nQUIT"}`)
			a := d.waits(t, x)
			got := <-office.letters
			if m.Username != "" && got.auth != " bridge topsecret" || got.from != "FROM:<bridge@example.com>" || len(got.to) != 2 {
				t.Errorf("got %+v", got)
			}
			msg, err := mail.ReadMessage(strings.NewReader(got.text))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(quotedprintable.NewReader(msg.Body))
			if err != nil {
				t.Fatal(err)
			}
			subject, _ := new(mime.WordDecoder).DecodeHeader(msg.Header.Get("Subject"))
			if subject != "To approve: oven.heat" || msg.Header.Get("To") != "<desk@example.com>, <night@example.com>" {
				t.Errorf("headers %v", msg.Header)
			}
			for _, want := range []string{"oven.heat", `{"at":"door\r\n.\r\nQUIT"}`, "bot", "https://bridge.example/approvals/" + a.ID, a.Why} {
				if !strings.Contains(string(body), want) {
					t.Errorf("the letter lacks %q:\n%s", want, body)
				}
			}
			if strings.Contains(string(body), a.Nonce) {
				t.Error("the letter has the nonce")
			}
		})
	}
}

// A tool is named by who declares it: its name must not become a header.
func TestANameIsNoHeader(t *testing.T) {
	p := newPostman(Options{Mail: &Mailer{From: address("bridge@example.com")}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}, nil, nil)
	text, err := p.compose(&letter{id: "1", news: news{name: "approval.requested"}, to: []mail.Address{address("a@example.com")}, view: Approval{Tool: "x\r\nBcc: eve@example.com", Title: "y\r\nz"}})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := mail.ReadMessage(strings.NewReader(string(text)))
	if err != nil || msg.Header.Get("Bcc") != "" {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestThoseAreToldWhoCanDecide(t *testing.T) {
	m := &Mailer{
		From: address("bridge@example.com"), To: []mail.Address{address("all@x")},
		People: map[string]mail.Address{"ann": address("ann@x"), "ben": address("ben@x"), "cid": address("cid@x"), "dan": address("dan@x")},
	}
	p := newPostman(Options{Mail: m, Now: time.Now}, nil, nil)
	for name, test := range map[string]struct {
		r    Record
		want string
	}{
		"everybody":                {Record{}, "all@x"},
		"by name":                  {Record{Approval: Approval{Deciders: Deciders{People: []string{"ann", "ben"}}}}, "ann@x ben@x"},
		"not the asker":            {Record{Approval: Approval{Requester: "ann", Kind: "operator", Deciders: Deciders{People: []string{"ann", "ben"}}}}, "ben@x"},
		"substitutes":              {Record{Approval: Approval{Deciders: Deciders{People: []string{"ann"}, Substitutes: map[string]string{"ann": "dan"}}}}, "ann@x dan@x"},
		"roles, too":               {Record{Approval: Approval{Deciders: Deciders{People: []string{"ann"}, Roles: []string{"safety"}}}}, "ann@x all@x"},
		"of whom none has any":     {Record{Approval: Approval{Deciders: Deciders{People: []string{"eve"}}}}, "all@x"},
		"not before it escalates":  {Record{Approval: Approval{Deciders: Deciders{People: []string{"ann"}}}, Escalation: &Escalation{To: Deciders{People: []string{"cid"}}}}, "ann@x"},
		"after it has escalated":   {Record{Approval: Approval{EscalatedAt: 1, Deciders: Deciders{People: []string{"ann"}}}, Escalation: &Escalation{To: Deciders{People: []string{"cid"}}}}, "ann@x cid@x"},
		"not who has agreed to it": {Record{Approval: Approval{Deciders: Deciders{People: []string{"ann", "ben"}}}, Agreed: []Agreement{{Grant: grantOf("ann")}}}, "ben@x"},
	} {
		var got []string
		for _, a := range p.recipients(&test.r) {
			got = append(got, a.Address)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %s", name, got, test.want)
		}
	}
}

func TestAPasswordIsNotSentInTheClear(t *testing.T) {
	office := openPostOffice(t, nil)
	p := newPostman(Options{Mail: &Mailer{Server: office.address, TLS: StartTLS, Username: "a", Password: "topsecret", From: address("a@x")}, Now: time.Now}, nil, nil)
	err := p.post(t.Context(), &letter{to: []mail.Address{address("b@x")}}, []byte("x"))
	if err == nil || strings.Contains(err.Error(), "topsecret") || !strings.Contains(err.Error(), "STARTTLS") {
		t.Errorf("sent: %v", err)
	}
}

func TestMailIsConfiguredOrRefused(t *testing.T) {
	good := MailSettings{Server: "mail.example:587", From: "a@x.example", To: []string{"Desk <b@x.example>"}}
	for want, change := range map[string]func(*MailSettings){
		"":                           func(*MailSettings) {},
		"server: is missing":         func(m *MailSettings) { m.Server = "" },
		"server: is no host:port":    func(m *MailSettings) { m.Server = "mail.example" },
		"tls: none is for":           func(m *MailSettings) { m.TLS = "none" },
		`tls: "ssl" is none of`:      func(m *MailSettings) { m.TLS = "ssl" },
		"username goes with":         func(m *MailSettings) { m.Username = "a" },
		"to: is missing":             func(m *MailSettings) { m.To = nil },
		`from: "nobody" is no`:       func(m *MailSettings) { m.From = "nobody" },
		`people.ann: "x" is no addr`: func(m *MailSettings) { m.People = map[string]string{"ann": "x"} },
	} {
		m := good
		change(&m)
		c := DefaultSettings()
		c.Mail = m
		var faults []string
		c.Check(func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) })
		if want == "" && len(faults) > 0 || want != "" && (len(faults) != 1 || !strings.HasPrefix(faults[0], "approvals.mail") || !strings.Contains(faults[0], want)) {
			t.Errorf("%q: %q", want, faults)
		}
	}
	file := filepath.Join(t.TempDir(), "letter")
	for text, want := range map[string]string{"{{.Tool}} waits until {{.Until}}": "", "{{.Password}}": "template_file", "{{.Space.Rule}}": "template_file", "{{": "template_file"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m := good
		m.TemplateFile = file
		if _, err := m.open(); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// An address gets its share of e-mails within an hour, half of it about one space, is
// told so in the last one, and gets e-mails again after that hour.
func TestAnAddressGetsItsShareOfMail(t *testing.T) {
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	registry := prometheus.NewRegistry()
	office := openPostOffice(t, nil)
	d := mailing(t, &Mailer{Server: office.address, TLS: ClearText, From: address("bridge@example.com"), To: []mail.Address{address("desk@example.com")}, PerHour: 3}, func(o *Options) {
		o.Now, o.Registerer = func() time.Time { return time.Unix(0, clock.Load()) }, registry
	})
	ask := func(space protocol.SpaceID) {
		x := heat(bot)
		x.Space = space
		d.waits(t, x)
	}
	said := func(want bool) {
		t.Helper()
		msg, err := mail.ReadMessage(strings.NewReader((<-office.letters).text))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(msg.Body))
		if err != nil {
			t.Fatal(err)
		}
		if last := strings.Contains(string(body), "This is the last e-mail"); last != want {
			t.Errorf("it is said that it is the last one: %t", last)
		}
	}
	ask("home")
	said(false)
	ask("home")
	said(true) // of this space
	ask("home")
	ask("office")
	said(true) // of all
	ask("office")
	eventually.Holds(t, "e-mails are counted", func() bool { return mails(t, registry, mailSent) == 3 })
	eventually.Holds(t, "those that are not sent are counted", func() bool { return mails(t, registry, mailLimited) == 2 })
	clock.Add(int64(shareTime))
	ask("home")
	said(false)
}

// mails is the number of e-mails with an outcome.
func mails(t *testing.T, r *prometheus.Registry, outcome string) int {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "aibridge_approval_mails_total" && m.GetLabel()[0].GetValue() == outcome {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}
