package policy

import (
	"cmp"
	"context"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A Record is a text of policies that was put by command, as stored.
type Record struct {
	Name string    `json:"name"`
	Text string    `json:"text"`
	By   string    `json:"by"` // id of the principal that put it
	At   time.Time `json:"at"`
}

// ServiceOptions configure a [Service]. Engine and Records are needed.
type ServiceOptions struct {
	Engine  *Engine
	Records records.Table[Record]
	Trials  records.Table[Record] // of texts on trial
	// Principal finds a principal by its id, for policy.explain: with the roles
	// that its keys give it. Optional.
	Principal func(kind protocol.Kind, id string, space protocol.SpaceID) (*protocol.Principal, bool)
	// InScope reports whether a credential's own limits let it do an action.
	InScope func(who *protocol.Principal, action string) bool
	// Elsewhere yields the findings of other bridges, and the bridges that did not
	// answer; nil where there are none.
	Elsewhere func(ctx context.Context) (found []ReportResult, silent []string)
}

// A Service runs the commands of the family.
type Service struct{ ServiceOptions }

// NewService makes a service. It follows the records from then on, so it comes
// before they are loaded.
func NewService(o ServiceOptions) *Service {
	s := &Service{o}
	follow := func(kind Kind) func(name string, _, now *Record) {
		return func(name string, _, now *Record) {
			from := Source{kind, name}
			if now == nil {
				o.Engine.remove(from)
				return
			}
			o.Engine.follow(from, now.Text, now.By, now.At)
		}
	}
	o.Records.OnChange(follow(Stored))
	o.Trials.OnChange(follow(Trial))
	return s
}

// Commands are the commands of the family.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(policyPut, s.Put),
		commands.New(policyGet, s.Get),
		commands.New(policyList, s.List),
		commands.New(policyRemove, s.Remove),
		commands.New(policyValidate, s.Validate),
		commands.New(policyExplain, s.Explain),
		commands.New(policyPromote, s.Promote),
		commands.New(policyReport, s.Report),
	}
}

// mostRecords bounds the texts put by command.
const mostRecords = 500

// A View is a text of policies as callers see it in a list.
type View struct {
	Name      string   `json:"name" doc:"name of the text; that of a file begins with file:, that of one on trial with trial:"`
	From      Kind     `json:"from" enum:"shipped,file,stored,trial" doc:"comes with the bridge, is in security.policies, was put by policy.put, or was put on trial by it"`
	Policies  []string `json:"policies" doc:"ids of the policies in it"`
	Broken    string   `json:"broken,omitempty" doc:"fault of a newer text, in whose place this one stays in force"`
	UpdatedAt int64    `json:"updated_at,omitempty" doc:"Unix milliseconds"`
	UpdatedBy string   `json:"updated_by,omitempty" doc:"principal who put it"`
}

// view shows a text. The engine is locked.
func (l *loaded) view(from Source) View {
	v := View{Name: from.prefix(), From: from.Kind, Policies: []string{}, Broken: l.broken, UpdatedBy: l.by}
	for _, r := range l.rules {
		v.Policies = append(v.Policies, r.id)
	}
	if !l.updated.IsZero() {
		v.UpdatedAt = l.updated.UnixMilli()
	}
	return v
}

// views lists every text, those of the bridge first.
func (e *Engine) views() []View {
	e.mu.Lock()
	list := make([]View, 0, len(e.texts))
	for from, l := range e.texts {
		list = append(list, l.view(from))
	}
	e.mu.Unlock()
	slices.SortFunc(list, func(a, b View) int { return strings.Compare(a.key(), b.key()) })
	return list
}

// key orders views and is the cursor of lists.
func (v *View) key() string {
	order := map[Kind]string{Shipped: "1", File: "2", Stored: "3", Trial: "4"}
	return order[v.From] + v.Name
}

// find looks a text up by the name it has in lists.
func (e *Engine) find(name string) (View, string, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for from, l := range e.texts {
		if from.prefix() == name {
			return l.view(from), l.text, true
		}
	}
	return View{}, "", false
}

// nameForm is the form of a name for a text that a command puts.
var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// checkName refuses a bad name for a text.
func (e *Engine) checkName(name string) error {
	if !nameForm.MatchString(name) {
		return protocol.InvalidParam("name", "must be 1 to 64 lower case letters, digits, dots, dashes and underscores")
	}
	if v, _, ok := e.find(name); ok && v.From == Shipped {
		return protocol.InvalidParam("name", "is that of policies that come with the bridge, which stay")
	}
	return nil
}

// target names a text for policy.
func target(name string) commands.Resource { return commands.Resource{Type: "policy", ID: name} }

func noPolicy(name string) error {
	return protocol.Errorf(protocol.NotFound, "there is no policy %q", name).With("name", name)
}

// A Subject is a principal, for policy.explain.
type Subject struct {
	ID         string            `json:"id" len:"1-256" doc:"id of the principal"`
	Kind       protocol.Kind     `json:"kind,omitempty" enum:"operator,agent,skill" default:"agent" doc:"kind of party"`
	Space      protocol.SpaceID  `json:"space_id,omitempty" doc:"its space, the caller's own by default"`
	Roles      []string          `json:"roles,omitempty" len:"0-32" each:"1-64" doc:"its roles; without any, those of its API key, or else of its kind"`
	Scopes     []string          `json:"scopes,omitempty" len:"0-100" each:"1-128" doc:"actions its credential is limited to"`
	Method     string            `json:"method,omitempty" enum:"anonymous,apikey,jwt,certificate" doc:"way in which it authenticated"`
	CertSN     *protocol.Serial  `json:"cert_sn,omitempty" doc:"serial of the certificate whose key it holds"`
	Attributes map[string]string `json:"attributes,omitempty" doc:"its attributes, which policies read with getTag"`
}

// principal returns the principal that a subject describes.
func (s *Service) principal(call *commands.Call, p *Subject) *protocol.Principal {
	if p == nil {
		return call.Principal
	}
	who := &protocol.Principal{
		Kind: cmp.Or(p.Kind, protocol.KindAgent), ID: p.ID, Space: cmp.Or(p.Space, call.Principal.Home()), Roles: p.Roles,
		Scopes: p.Scopes, Method: p.Method, Attributes: p.Attributes,
	}
	if p.CertSN != nil {
		who.CertSerial = *p.CertSN
	}
	if len(who.Roles) == 0 && s.Principal != nil {
		if known, ok := s.Principal(who.Kind, who.ID, who.Space); ok {
			who.Roles = known.Roles
			who.Method = cmp.Or(who.Method, known.Method)
			if len(who.Scopes) == 0 {
				who.Scopes = known.Scopes
			}
		}
	}
	return who
}

// address reads an optional address.
func address(text string) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, protocol.InvalidParam("address", "must be an IP address")
	}
	return a, nil
}

// Walled reports whether a query is about another space than the principal's,
// which no policy can open (docs/protocol.md#spaces).
func Walled(q *Query) bool {
	return q.Space != "" && q.Space != q.Who.Home() && !q.Who.Unbounded()
}
