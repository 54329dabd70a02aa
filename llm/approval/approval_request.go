package approval

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var approvalRequest = commands.Spec{
	Name:    "approval.request",
	Summary: "Have the people of this bridge decide about a call that waits at a site of it; for sites. Once for each approval_id: repeated, it tells how the approval stands.",
	Effect:  commands.Write,
	Action:  "approval:request",
	Routine: true, // it is repeated every two seconds; what comes of it is an event of its own in the audit trail
	Errors:  []protocol.Code{protocol.AlreadyExists, protocol.LimitReached, protocol.PermissionDenied},
	Example: `{"approval_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10.5d41402abc4b","site":"plant","tool":"door.open","arguments":{"id":7},"risk":"high","why":"it declares the risk \"high\"","asked_by":"operator/ann","expires_at":1793923200000}`,
}

// RequestParams are the params of approval.request.
type RequestParams struct {
	ID      string          `json:"approval_id" len:"36-64" pattern:"^[0-9a-f-]{36}(\\.[0-9a-z]{1,12}){0,2}$" audit:"yes" doc:"id that the approval gets here"`
	Site    string          `json:"site" len:"1-32" pattern:"^[a-z0-9][a-z0-9_-]*$" audit:"yes" doc:"name of the site, which its tools have here before a dot"`
	Tool    string          `json:"tool" len:"1-200" text:"line" audit:"yes" doc:"tool that the model wants to call there"`
	Title   string          `json:"title,omitempty" len:"0-256" text:"line" doc:"title of the tool, as declared there"`
	Source  string          `json:"source,omitempty" len:"0-128" text:"line" doc:"source of the tool there"`
	Args    json.RawMessage `json:"arguments" doc:"arguments of the call, an object"`
	Roster  []string        `json:"roster,omitempty" len:"0-256" each:"1-64" text:"line" doc:"skills of the site that the call of a group reaches"`
	Risk    string          `json:"risk,omitempty" len:"0-64" text:"line" doc:"risk of the capability, in its own words"`
	Why     string          `json:"why" len:"1-1000" text:"lines" doc:"reason why the call needs an approval there"`
	AskedBy string          `json:"asked_by" len:"1-200" text:"line" audit:"yes" doc:"principal of the call there, as kind/id: the word of the site"`
	TraceID string          `json:"trace_id,omitempty" len:"0-128" doc:"trace of the call"`
	Expires int64           `json:"expires_at" range:"1-253402300799999" doc:"Unix ms; without a decision by then the call is denied there"`
}

// Target implements [commands.Targeter].
func (p RequestParams) Target() commands.Resource {
	return commands.Resource{Type: "approval", ID: p.ID}
}

// mostEnded bounds the approvals of a site that have ended, as a multiple of those that are
// kept of it: what it requests and ends, ten thousand times a second, is not removed before
// the next sweep.
const mostEnded = 2

// Request opens an approval of a call at another bridge, which is a site of this one. An
// approval that was given is looked at anew each time it is asked for: whether its voters
// may still decide, and whether that was too long ago.
func (s *Service) Request(ctx context.Context, call *commands.Call, p RequestParams) (Approval, error) {
	space := call.Principal.Home()
	if s.opts.MayName != nil {
		if err := s.opts.MayName(space, p.Site+"."+p.Tool, call.Principal); err != nil {
			return Approval{}, err
		}
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(p.Args, &object) != nil || object == nil {
		return Approval{}, protocol.InvalidParam("arguments", "is no object")
	}
	if len(p.Args) > s.opts.MaxArgs {
		return Approval{}, protocol.InvalidParam("arguments", "are too long to be judged").With("limit", s.opts.MaxArgs)
	}
	if known, _ := s.Known(p.ID); known {
		return s.stands(ctx, call.Principal, p.ID)
	}
	now := s.opts.Now()
	if ms(now) >= p.Expires {
		return Approval{}, protocol.InvalidParam("expires_at", "has passed")
	}
	if s.tally.endedOf(call.Principal.Party()) >= mostEnded*s.opts.MaxOwnKept {
		return Approval{}, protocol.Errorf(protocol.LimitReached, "%d approvals that you have requested are over and have not been removed yet, which is the limit; the oldest go every ten minutes", mostEnded*s.opts.MaxOwnKept).
			With("limit", mostEnded*s.opts.MaxOwnKept).With("reason", "approvals_of_principal")
	}
	tool := p.Site + "." + p.Tool
	r := &Record{
		Home: space, Salt: newSalt(), Parked: true, Elsewhere: true,
		Approval: Approval{
			ID: p.ID, State: Pending, Space: space, Tool: tool, Title: p.Title, Source: p.Source, Args: p.Args, Roster: p.Roster, Risk: p.Risk,
			Why:     "asked by " + p.AskedBy + " at the site " + p.Site + ": " + p.Why,
			Hash:    hashed(append([][]byte{[]byte(tool), p.Args}, bytesOf(p.Roster)...)...),
			AskedAt: ms(now), Expires: min(p.Expires, ms(now.Add(MaxLife))),
			Requester: call.Principal.ID, Kind: call.Principal.Kind, TraceID: p.TraceID,
		},
	}
	rule := s.rule(subject{names: []string{tool}, risks: []string{p.Risk}, space: space})
	rule.applyTo(r)
	r.UseFor = s.useOf(rule, p.Risk).Milliseconds()
	release, err := s.Reserve(r)
	if err != nil {
		return Approval{}, err
	}
	defer release()
	if err := s.Open(ctx, r); err != nil {
		return Approval{}, err
	}
	return s.stands(ctx, call.Principal, p.ID)
}

// stands is an approval that a principal has requested for another bridge, pending again if
// its votes do not count any more.
func (s *Service) stands(ctx context.Context, who *protocol.Principal, id string) (Approval, error) {
	release, err := s.deciding.Lock(ctx, id)
	if err != nil {
		return Approval{}, err
	}
	defer release()
	r, revision, err := s.requested(who, id)
	if err != nil {
		return Approval{}, err
	}
	if r.State != Approved {
		return s.view(r), nil
	}
	if s.stale(r) {
		_ = s.renew(ctx, r, revision) // its error is for the model
	} else if again := s.lapsed(r); again != nil {
		_ = s.reopen(ctx, again, revision)
	}
	if r, _, err = s.requested(who, id); err != nil {
		return Approval{}, err
	}
	return s.view(r), nil
}

// requested is an approval that a principal has requested for another bridge; 3002 if the id
// is one of another approval.
func (s *Service) requested(who *protocol.Principal, id string) (*Record, uint64, error) {
	r, revision, ok := s.opts.Approvals.Get(id)
	switch {
	case !ok:
		return nil, 0, unknown(id)
	case !r.Elsewhere || !r.requestedBy(who):
		return nil, 0, protocol.Errorf(protocol.AlreadyExists, "there is another approval of this id").With("approval_id", id)
	}
	return r, revision, nil
}

// useOf is the time within which an approval of another bridge's call can be used.
func (s *Service) useOf(rule *Rule, risk string) time.Duration {
	for _, d := range []time.Duration{rule.Use, s.opts.UseOf[strings.ToLower(risk)]} {
		if d > 0 {
			return d
		}
	}
	return s.opts.Use
}

func bytesOf(texts []string) (list [][]byte) {
	for _, text := range texts {
		list = append(list, []byte(text))
	}
	return list
}
