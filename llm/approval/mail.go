package approval

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/internal/gotemplate"
	"github.com/aibridge/aibridge/protocol"
)

// A Mailer is the configuration of e-mails about approvals.
type Mailer struct {
	Server   string // host:port
	TLS      TLS
	Roots    *tls.Config // of the server; nil for the system's
	Username string      // "" for no authentication
	Password string
	From     mail.Address
	To       []mail.Address          // default recipients, see postman.recipients
	People   map[string]mail.Address // of operators, by id
	Spaces   []protocol.SpaceID      // spaces of the approvals; all by default
	Template *gotemplate.Template    // of the text; nil for the bridge's own
	PerHour  int                     // e-mails to one address, 0 for any number
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
}

// TLS is the encryption of the connection to a mail server.
type TLS string

// The kinds of encryption.
const (
	StartTLS    TLS = "starttls" // in the clear until STARTTLS, which it must offer
	ImplicitTLS TLS = "tls"      // from the first byte on
	ClearText   TLS = "none"     // on this machine alone
)

// mailed are the events with e-mails: those that require an action of people.
var mailed = []string{"approval.requested", "approval.edited", "approval.reopened", "approval.reminded", "approval.escalated"}

// letterText is the text of an e-mail. Its parts are in lines of their own, so that
// none can be taken for another.
const letterText = `{{if eq .Event "approval.reminded"}}Still waiting: {{else if eq .Event "approval.escalated"}}Nobody has decided yet: {{end}}a model wants to run {{.Tool}}{{with .Title}} ({{.}}){{end}}.

For:       {{.Requester}}
With:      {{printf "%s" .Args}}
{{- range .Roster}}
Reaches:   {{.}}{{end}}
Because:   {{.Why}}
{{- range .Changes}}
Changed:   {{.}}{{end}}
{{- if gt .Needs 1}}
Agreed:    {{len .Votes}} of {{.Needs}}{{range .Votes}}, {{.By}}{{end}}{{end}}
Until:     {{.Until}}
Approval:  {{.ID}}
{{with .Link}}
Decide:    {{.}}
{{end}}
This message decides nothing: whoever decides signs in.
`

var ownLetter = gotemplate.Must(gotemplate.Parse("letter", letterText))

// A Letter is the data of a template of e-mails. Every field is plain text on one line.
type Letter struct {
	Event string
	Until string
	Approval
}

// letter is an e-mail in the queue.
type letter struct {
	news
	id   string
	to   []mail.Address
	full []string // addresses of these that get no further e-mail for a while
	view Approval
	at   time.Time

	shared bool          // to is what the shares of the addresses allow
	due    time.Time     // of the next attempt; zero at once
	pause  time.Duration // before the attempt after that
}

// A postman delivers e-mails, one after the other.
type postman struct {
	Mailer
	bridge string
	people People
	log    *slog.Logger
	now    func() time.Time
	pause  time.Duration // before the second attempt, doubled for each further one
	waits  func(approval string) bool
	told   func(ctx context.Context, hook string, n news) // the delivery is settled
	wake   chan struct{}
	counts *prometheus.CounterVec // by outcome

	mu           sync.Mutex
	line[letter]                  // including the one that is being sent
	shares       map[string]share // by address
}

func newPostman(o Options, waits func(approval string) bool, told func(context.Context, string, news)) *postman {
	if o.Mail == nil {
		return nil
	}
	p := &postman{
		Mailer: *o.Mail, bridge: o.BridgeID, people: o.People, log: o.Log, now: o.Now, pause: firstPause, waits: waits, told: told, wake: make(chan struct{}, 1),
		line:   newLine(len(o.Mail.Spaces) == 1, func(l *letter) place { return place{l.view.Space, l.due} }),
		shares: make(map[string]share), counts: newMailCounts(o.Registerer),
	}
	if p.Template == nil {
		p.Template = ownLetter
	}
	if p.Dial == nil {
		p.Dial = (&net.Dialer{Timeout: postTimeout}).DialContext
	}
	return p
}

// byMail is the name of the delivery by e-mail in the steps of approvals, beside those of
// webhooks.
const byMail = "mail"

// tells reports whether there are e-mails about an event of a space.
func (p *postman) tells(space protocol.SpaceID, event string) bool {
	return p != nil && slices.Contains(mailed, event) && (len(p.Spaces) == 0 || slices.Contains(p.Spaces, space))
}

// send queues an e-mail about a step of an approval. It does not block.
func (p *postman) send(r *Record, view Approval, e *protocol.Event, step int) {
	if !p.tells(view.Space, e.Name) {
		return
	}
	l := &letter{news: news{r.ID, step, e.Name}, id: deliveryID(e), to: p.recipients(r), view: view, at: time.UnixMilli(e.Timestamp), pause: p.pause}
	if step >= 0 {
		l.id += "-" + strconv.Itoa(step) // two bridges may count alike
	}
	p.mu.Lock()
	known := slices.ContainsFunc(p.waiting, func(w *letter) bool { return w.id == l.id })
	added := known || p.add(l)
	p.mu.Unlock()
	if !added && step < 0 {
		p.counts.WithLabelValues(mailCrowded).Add(float64(len(l.to)))
		p.log.Warn("an e-mail is not sent, too many wait already", "event", e.Name, "space", view.Space)
		return
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// recipients returns the addresses of the people whom a rule names and who could still
// approve. If there are none, or if roles decide as well, it adds the default
// recipients.
func (p *postman) recipients(r *Record) (to []mail.Address) {
	lists := []Deciders{r.Deciders}
	if r.EscalatedAt != 0 && r.Escalation != nil {
		lists = append(lists, r.Escalation.To)
	}
	add := func(id string) {
		address, ok := p.People[id]
		voted := slices.ContainsFunc(r.Agreed, func(a Agreement) bool { return p.people.of(a.Grant.Party()) == p.people.named(id) })
		if ok && !voted && !r.concerns(p.people, id) && !slices.Contains(to, address) {
			to = append(to, address)
		}
	}
	open := false
	for _, d := range lists {
		open = open || len(d.Roles) > 0 || d.unlimited()
		for _, id := range d.People {
			add(id)
			if substitute := d.Substitutes[id]; substitute != "" {
				add(substitute)
			}
		}
	}
	if len(to) > 0 && !open {
		return to
	}
	for _, address := range p.To {
		if !slices.Contains(to, address) {
			to = append(to, address)
		}
	}
	return to
}

// run delivers until ctx ends.
func (p *postman) run(ctx context.Context) {
	if p == nil {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		p.mu.Lock()
		l, wait := p.next(time.Now())
		p.mu.Unlock()
		if l != nil {
			p.deliver(ctx, l)
			continue
		}
		timer.Reset(wait)
		select {
		case <-p.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// deliver makes one attempt. A letter that the server refuses for now is repeated with
// doubling pauses while its call waits, for a day at most, and does not block others
// meanwhile.
func (p *postman) deliver(ctx context.Context, l *letter) {
	p.share(l)
	outcome := mailSent
	switch {
	case len(l.to) == 0: // all have had their share, or nobody has an address
	case !p.waits(l.approval):
		outcome = mailMoot
	default:
		err := p.try(ctx, l)
		if err != nil && ctx.Err() != nil {
			return // whoever goes on sends it
		}
		if err != nil && isPassing(err) && p.now().Sub(l.at) < tooOld {
			p.mu.Lock()
			l.due, l.pause = time.Now().Add(l.pause), min(2*l.pause, longestPause)
			p.mu.Unlock()
			return
		}
		if err != nil {
			outcome = mailFailed
			p.log.Warn("an e-mail could not be sent", "server", p.Server, "event", l.name, "error", err)
		}
	}
	p.counts.WithLabelValues(outcome).Add(float64(len(l.to)))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), postTimeout) // recorded also by a bridge that stops
	defer cancel()
	p.told(ctx, byMail, l.news)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(l)
}

// share counts a letter against the shares of its addresses, once.
func (p *postman) share(l *letter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.shared {
		return
	}
	to := l.to
	l.to, l.full = p.within(to, l.view.Space, p.now())
	l.shared = true
	p.counts.WithLabelValues(mailLimited).Add(float64(len(to) - len(l.to)))
}

// try composes a letter and sends it once.
func (p *postman) try(ctx context.Context, l *letter) error {
	text, err := p.compose(l)
	if err != nil {
		return fmt.Errorf("%w: %w", errTemplate, err)
	}
	return p.post(ctx, l, text)
}

var errTemplate = errors.New("it cannot be written; look at its template")

// isPassing reports whether a later attempt may succeed: the template is not faulty, and
// the server has not refused the letter for good.
func isPassing(err error) bool {
	refused, ok := errors.AsType[*textproto.Error](err)
	return !errors.Is(err, errTemplate) && (!ok || refused.Code < 500)
}

// maxLetter is the greatest length of the text of an e-mail, in bytes.
const maxLetter = 128 << 10

// compose returns the text of an e-mail. Its headers hold nothing of the approval but
// the name of the tool, as an encoded word.
func (p *postman) compose(l *letter) ([]byte, error) {
	var body bytes.Buffer
	until := time.UnixMilli(l.view.Expires).UTC().Format("2006-01-02 15:04 MST")
	if err := p.Template.Execute(&body, Letter{Event: l.name, Until: until, Approval: l.view.plain()}); err != nil {
		return nil, err
	}
	if body.Len() > maxLetter {
		body.Truncate(maxLetter)
	}
	for _, address := range l.full {
		fmt.Fprintf(&body, "\nThis is the last e-mail about calls of the space %s to %s for up to an hour. Further ones may wait: look at all that do.\n", l.view.Space, address)
	}
	to := make([]string, len(l.to))
	for i, address := range l.to {
		to[i] = address.String()
	}
	_, domain, _ := strings.Cut(p.From.Address, "@")
	var text bytes.Buffer
	for _, header := range [][2]string{
		{"From", p.From.String()}, {"To", strings.Join(to, ",\r\n ")}, {"Date", l.at.Format(time.RFC1123Z)},
		{"Subject", headerText(subjects[l.name] + " " + l.view.Tool)},
		{"Message-ID", "<" + l.id + "@" + domain + ">"}, {"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"}, {"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"},
	} {
		fmt.Fprintf(&text, "%s: %s\r\n", header[0], header[1])
	}
	text.WriteString("\r\n")
	w := quotedprintable.NewWriter(&text)
	if _, err := w.Write(body.Bytes()); err != nil {
		return nil, err
	}
	return text.Bytes(), w.Close()
}

// subjects are the prefixes of the subjects of e-mails, by event.
var subjects = map[string]string{
	"approval.requested": "To approve:", "approval.edited": "To approve, changed:", "approval.reopened": "To approve again:",
	"approval.reminded": "Still to approve:", "approval.escalated": "To approve, escalated:",
}

// post sends an e-mail once.
func (p *postman) post(ctx context.Context, l *letter, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 4*postTimeout)
	defer cancel()
	client, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	if p.Username != "" {
		host, _, _ := net.SplitHostPort(p.Server)
		if err := client.Auth(smtp.PlainAuth("", p.Username, p.Password, host)); err != nil {
			return fmt.Errorf("the server does not let the bridge sign in: %w", err)
		}
	}
	if err := client.Mail(p.From.Address); err != nil {
		return err
	}
	for _, to := range l.to {
		if err := client.Rcpt(to.Address); err != nil {
			return err
		}
	}
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return client.Quit()
}

// connect opens an encrypted connection to the server.
func (p *postman) connect(ctx context.Context) (*smtp.Client, error) {
	host, _, err := net.SplitHostPort(p.Server)
	if err != nil {
		return nil, err
	}
	conn, err := p.Dial(ctx, "tcp", p.Server)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.Roots != nil {
		secure = p.Roots.Clone()
	}
	secure.ServerName = host
	if p.TLS == ImplicitTLS {
		conn = tls.Client(conn, secure)
	}
	client, err := smtp.NewClient(conn, host)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if p.TLS != StartTLS {
		return client, nil
	}
	if err := client.StartTLS(secure); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("STARTTLS: %w", err)
	}
	return client, nil
}
