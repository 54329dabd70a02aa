package approval

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/mail"
	"os"
	"strings"

	"github.com/aibridge/aibridge/internal/gotemplate"
	"github.com/aibridge/aibridge/protocol"
)

// MailSettings are the settings of e-mails about approvals.
type MailSettings struct {
	Server       string            `yaml:"server" doc:"mail server as host:port that e-mails about approvals are sent by; none are sent without"`
	TLS          string            `yaml:"tls" doc:"starttls, tls (from the first byte on), or none, for a server on this machine; starttls by default"`
	Username     string            `yaml:"username" doc:"name to sign in to the mail server with; none by default"`
	PasswordEnv  string            `yaml:"password_env" doc:"environment variable with the password of the mail server"`
	PasswordFile string            `yaml:"password_file" doc:"file with the password of the mail server"`
	From         string            `yaml:"from" doc:"sender of e-mails, such as bridge@example.com"`
	To           []string          `yaml:"to" doc:"addresses of those who are told, unless a rule names people with addresses of their own"`
	People       map[string]string `yaml:"people" doc:"addresses of operators by their ids; in the file only"`
	Spaces       []string          `yaml:"spaces" doc:"spaces whose approvals are told by e-mail; all by default"`
	PerHour      int               `yaml:"per_hour" doc:"most e-mails to one address within an hour, at each bridge, 60 by default; -1 for any number"`
	TemplateFile string            `yaml:"template_file" doc:"file with the text of e-mails, as a Go template of the approval; the bridge's own by default"`
}

// check reports the faults of the settings to fail.
func (m *MailSettings) check(fail func(format string, args ...any)) {
	if m.Server == "" {
		if m.From != "" || len(m.To) > 0 || len(m.People) > 0 {
			fail("approvals.mail.server: is missing")
		}
		return
	}
	host, _, err := net.SplitHostPort(m.Server)
	switch ip := net.ParseIP(host); {
	case err != nil || host == "":
		fail("approvals.mail.server: is no host:port")
	case m.TLS == string(ClearText) && host != "localhost" && !ip.IsLoopback():
		fail("approvals.mail.tls: none is for a server on this machine alone")
	}
	switch TLS(m.TLS) {
	case "", StartTLS, ImplicitTLS, ClearText:
	default:
		fail("approvals.mail.tls: %q is none of starttls, tls and none", m.TLS)
	}
	if (m.Username != "") != (m.PasswordEnv != "" || m.PasswordFile != "") || m.PasswordEnv != "" && m.PasswordFile != "" {
		fail("approvals.mail: username goes with one of password_env and password_file")
	}
	if m.PerHour < -1 {
		fail("approvals.mail.per_hour: must be at least 1, or -1 for any number, is %d", m.PerHour)
	}
	if len(m.To) == 0 && len(m.People) == 0 {
		fail("approvals.mail.to: is missing")
	}
	if _, _, _, err := m.addresses(); err != nil {
		fail("approvals.mail.%s", err)
	}
}

// addresses parses the addresses of the sender, of the default recipients, and of
// people.
func (m *MailSettings) addresses() (from mail.Address, to []mail.Address, people map[string]mail.Address, err error) {
	parse := func(name, text string) mail.Address {
		address, fault := mail.ParseAddress(text)
		if fault != nil {
			err = errors.Join(err, fmt.Errorf("%s: %q is no address", name, text))
			return mail.Address{}
		}
		return *address
	}
	from = parse("from", m.From)
	for _, text := range m.To {
		to = append(to, parse("to", text))
	}
	people = make(map[string]mail.Address, len(m.People))
	for id, text := range m.People {
		people[id] = parse("people."+id, text)
	}
	return from, to, people, err
}

// open returns the mailer of the settings, nil for none.
func (m *MailSettings) open() (*Mailer, error) {
	if m.Server == "" {
		return nil, nil
	}
	from, to, people, err := m.addresses()
	if err != nil {
		return nil, err
	}
	made := &Mailer{Server: m.Server, TLS: TLS(m.TLS), Username: m.Username, From: from, To: to, People: people, Password: os.Getenv(m.PasswordEnv)}
	made.PerHour = max(cmp.Or(m.PerHour, DefaultMailsPerHour), 0)
	if made.TLS == "" {
		made.TLS = StartTLS
	}
	if m.PasswordFile != "" {
		data, err := os.ReadFile(m.PasswordFile)
		if err != nil {
			return nil, err
		}
		made.Password = strings.TrimSpace(string(data))
	}
	if m.Username != "" && made.Password == "" {
		return nil, errors.New("the password of the mail server is empty")
	}
	for _, space := range m.Spaces {
		made.Spaces = append(made.Spaces, protocol.SpaceID(space))
	}
	if m.TemplateFile != "" {
		text, err := os.ReadFile(m.TemplateFile)
		if err != nil {
			return nil, err
		}
		if made.Template, err = gotemplate.Parse("letter", string(text)); err != nil {
			return nil, fmt.Errorf("template_file: %w", err)
		}
		if err := made.Template.Execute(io.Discard, Letter{}); err != nil {
			return nil, fmt.Errorf("template_file: %w", err)
		}
	}
	return made, nil
}
