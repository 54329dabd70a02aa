package site

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// Bounds of approvals that the centre's people decide about.
const (
	mostApprovals = 128             // that the centre is asked about at a time, the oldest first
	askEvery      = 2 * time.Second // while one waits
	mostAsked     = 99              // times that one is asked about anew
	maxReason     = 500             // bytes, of a decision
	maxTitle      = 256             // bytes
	maxWhy        = 1000            // bytes
)

// noLonger is the reason for which an approval is withdrawn at the centre.
const noLonger = "the site does not wait for it any more"

// A waiting is an approval of this bridge that waits for people.
type waiting struct {
	ID      string          `json:"approval_id"`
	Tool    string          `json:"tool"`
	Title   string          `json:"title"`
	Source  string          `json:"source"`
	Args    json.RawMessage `json:"arguments"`
	Roster  []string        `json:"roster"`
	Risk    string          `json:"risk"`
	Why     string          `json:"why"`
	Hash    string          `json:"hash"`
	Nonce   string          `json:"nonce"`
	Asker   string          `json:"requester"`
	Kind    string          `json:"requester_kind"`
	TraceID string          `json:"trace_id"`
	Expires int64           `json:"expires_at"`
}

// key names the approval at the centre, where it is another one once its call has
// changed, and with every time that it is asked about anew.
func (w *waiting) key(times int) string {
	key := w.ID + "." + w.Hash[:min(len(w.Hash), 12)]
	if times > 0 {
		key += "." + strconv.Itoa(times)
	}
	return key
}

// A request has the centre's people decide about an approval.
type request struct {
	ID      string          `json:"approval_id"`
	Site    string          `json:"site"`
	Tool    string          `json:"tool"`
	Title   string          `json:"title,omitempty"`
	Source  string          `json:"source,omitempty"`
	Args    json.RawMessage `json:"arguments"`
	Roster  []string        `json:"roster,omitempty"`
	Risk    string          `json:"risk,omitempty"`
	Why     string          `json:"why"`
	AskedBy string          `json:"asked_by"`
	TraceID string          `json:"trace_id,omitempty"`
	Expires int64           `json:"expires_at"`
}

// A standing is how an approval stands at the centre.
type standing struct {
	ID     string `json:"approval_id"`
	State  string `json:"state"`
	By     string `json:"decided_by"`
	Reason string `json:"reason"`
}

// asked are the approvals that the centre is asked about.
type asked struct {
	site   *Site
	centre *client.Client
	open   map[string]*question // by their first keys
	swept  bool                 // nothing is left there of an earlier run
}

// A question is an approval as the centre has it.
type question struct {
	key   string
	times int  // that it was asked about anew
	taken bool // its approval was taken over here
}

func newAsked(s *Site, centre *client.Client) *asked {
	return &asked{site: s, centre: centre, open: map[string]*question{}}
}

// settle asks the centre about approvals that wait here, and decides about them as its people
// have. As with agents, the error is that the centre, or this bridge, does not answer.
func (a *asked) settle(ctx context.Context) error {
	if len(a.site.Approvals) == 0 {
		return nil
	}
	here, err := a.site.waiting(ctx)
	if err != nil {
		return a.refused(err)
	}
	wait := map[string]bool{}
	for i := range here {
		wait[here[i].key(0)] = true
	}
	if err := a.refused(a.sweep(ctx, wait)); err != nil {
		return err
	}
	for first, q := range a.open {
		if wait[first] {
			continue
		}
		if err := a.close(ctx, q.key, q.taken); passes(err) {
			return err
		}
		delete(a.open, first)
		a.site.complain("approval "+first, nil)
	}
	for i := range here {
		if err := a.ask(ctx, &here[i]); err != nil {
			return err
		}
	}
	return nil
}

// refused notes the error of a list of approvals that the site, or its principal here, has no
// right to, nil for none, and returns one that may pass: what else crosses does not wait.
func (a *asked) refused(err error) error {
	if passes(err) {
		return err
	}
	a.site.complain("approvals", err)
	return nil
}

// ask asks the centre about one approval.
func (a *asked) ask(ctx context.Context, w *waiting) error {
	first := w.key(0)
	q := a.open[first]
	if q == nil {
		q = &question{key: first}
		a.open[first] = q
	}
	stands, err := client.Call[standing](ctx, a.centre, "approval.request", request{
		ID: q.key, Site: a.site.Name, Tool: w.Tool, Title: cut(w.Title, maxTitle), Source: w.Source, Args: w.Args, Roster: w.Roster,
		Risk: w.Risk, Why: cut(w.Why, maxWhy), AskedBy: w.Kind + "/" + w.Asker, TraceID: w.TraceID, Expires: w.Expires,
	})
	if passes(err) {
		return err
	}
	if err == nil {
		err = a.follow(ctx, w, q, stands)
	}
	if passes(err) {
		return err
	}
	a.site.complain("approval "+first, err)
	return nil
}

// follow does with an approval what came of it at the centre.
func (a *asked) follow(ctx context.Context, w *waiting, q *question, stands standing) error {
	switch stands.State {
	case "pending":
		return nil
	case "approved":
		taken, err := a.site.decide(ctx, w, "approve", stands)
		if err != nil {
			return err
		}
		q.taken = taken
		return a.close(ctx, q.key, taken)
	case "denied":
		_, err := a.site.decide(ctx, w, "deny", stands)
		return err
	}
	// It has ended there, and waits here again: its votes did not count any more.
	if q.times < mostAsked {
		q.times++
		q.key, q.taken = w.key(q.times), false
		a.site.Stir()
	}
	return nil
}

// close ends an approval at the centre. One that is not there has ended.
func (a *asked) close(ctx context.Context, key string, taken bool) error {
	_, err := client.Call[standing](ctx, a.centre, "approval.close", map[string]any{"approval_id": key, "taken": taken, "reason": noLonger})
	return ignore(err, protocol.NotFound)
}

// sweep ends what an earlier run has left at the centre: approvals that do not wait here any
// more, or that wait for another call now.
func (a *asked) sweep(ctx context.Context, wait map[string]bool) error {
	if a.swept {
		return nil
	}
	for _, state := range []string{"pending", "approved"} {
		for cursor := ""; ; {
			page, err := client.Call[struct {
				Approvals []standing `json:"approvals"`
				Next      string     `json:"next_cursor"`
			}](ctx, a.centre, "approval.list", listed(cursor, map[string]any{"state": state, "find": a.site.named("")}))
			if err != nil {
				return err
			}
			for _, left := range page.Approvals {
				first := firstKey(left.ID)
				if first == "" || wait[first] {
					continue
				}
				taken := false
				if state == "approved" {
					if taken, err = a.site.took(ctx, first); err != nil {
						return err
					}
				}
				if err := a.close(ctx, left.ID, taken); passes(err) {
					return err
				}
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	a.swept = true
	return nil
}

// idLength is the length of the id of an approval, a UUID.
const idLength = 36

// firstKey is the key of an approval without the number of times that it was asked about, ""
// of what is no such key.
func firstKey(key string) string {
	const hash = 1 + 12
	if len(key) < idLength+hash || key[idLength] != '.' {
		return ""
	}
	return key[:idLength+hash]
}

// waiting lists the approvals of this bridge that the centre is asked about: those of
// the tools that the settings name, about which the site's principal may decide.
func (s *Site) waiting(ctx context.Context) ([]waiting, error) {
	var found []waiting
	for cursor := ""; ; {
		var page struct {
			Approvals []waiting `json:"approvals"`
			Next      string    `json:"next_cursor"`
		}
		if err := s.do(ctx, "approval.list", listed(cursor, map[string]any{"state": "pending", "mine": true, "sort": "id"}), &page); err != nil {
			return nil, err
		}
		for _, w := range page.Approvals {
			if !fits(s.Approvals, w.Tool) || w.Expires <= time.Now().UnixMilli() {
				continue
			}
			if len(found) == mostApprovals {
				return found, nil
			}
			found = append(found, w)
		}
		if cursor = page.Next; cursor == "" {
			return found, nil
		}
	}
}

// decide decides about an approval of this bridge as the centre's people have, and reports
// whether it has. One that was decided or changed here meanwhile stays as it is.
func (s *Site) decide(ctx context.Context, w *waiting, decision string, stands standing) (done bool, err error) {
	reason := stands.By + " at the centre"
	if stands.Reason != "" {
		reason += ": " + stands.Reason
	}
	var decided struct{}
	err = s.do(ctx, "approval.decide", map[string]any{"approval_id": w.ID, "nonce": w.Nonce, "decision": decision, "reason": cut(reason, maxReason)}, &decided)
	switch protocol.CodeOf(err) {
	case protocol.InvalidState, protocol.InvalidParameter, protocol.NotFound:
		s.Stir()
		return false, nil
	case protocol.PermissionDenied:
		return false, fmt.Errorf("the principal of sites.join may not decide about it: %w", err)
	}
	return err == nil, err
}

// took reports whether a decision of the centre was taken over by an earlier run: whether the
// principal of sites.join has agreed to the call, which has not been denied or ended since.
func (s *Site) took(ctx context.Context, first string) (bool, error) {
	who, err := s.principal(ctx)
	if err != nil {
		return false, err
	}
	var here struct {
		waiting
		State string `json:"state"`
		Votes []struct {
			By string `json:"by"`
		} `json:"votes"`
	}
	err = s.do(ctx, "approval.get", map[string]any{"approval_id": first[:idLength]}, &here)
	switch {
	case passes(err):
		return false, err
	case err != nil || here.key(0) != first || slices.Contains([]string{"denied", "expired", "withdrawn"}, here.State):
		return false, nil
	}
	for _, vote := range here.Votes {
		if vote.By == who.ID {
			return true, nil
		}
	}
	return false, nil
}

// cut shortens a text to so many bytes, between its characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
