package policy

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

//go:embed shipped/*.cedar
var shipped embed.FS

// A Kind is the origin of a text of policies.
type Kind string

// The kinds of sources.
const (
	Shipped Kind = "shipped" // comes with the bridge
	File    Kind = "file"    // is in security.policies
	Stored  Kind = "stored"  // was put by policy.put
	Trial   Kind = "trial"   // was put on trial: it judges, and decides nothing
)

// A Source names a text of policies.
type Source struct {
	Kind Kind
	Name string
}

// prefix begins the ids of a source's rules. It keeps sources apart; rules stored by
// policy.put have plain names.
func (s Source) prefix() string {
	switch s.Kind {
	case File:
		return "file:" + s.Name
	case Trial:
		return trialPrefix + s.Name
	}
	return s.Name
}

// loaded is a text as it is in force.
type loaded struct {
	text    string
	last    string // the last text given, which may be broken
	rules   []*rule
	broken  string // why a newer text is refused, "" if it is not
	updated time.Time
	by      string
}

// mostRules bounds all policies together.
const mostRules = 2000

func (e *Engine) loadShipped() error {
	names, err := fs.Glob(shipped, "shipped/*.cedar")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := shipped.ReadFile(name)
		if err != nil {
			return err
		}
		from := Source{Shipped, strings.TrimSuffix(strings.TrimPrefix(name, "shipped/"), ".cedar")}
		rules, err := parse(from.prefix(), string(text), from)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, r := range rules {
			r.builtin = true
		}
		e.texts[from] = &loaded{text: string(text), last: string(text), rules: rules}
	}
	e.rebuild()
	return nil
}

// rebuild puts the loaded texts in force.
func (e *Engine) rebuild() {
	var rules, tried []*rule
	onTrial := false
	for from, l := range e.texts {
		if from.Kind == Trial {
			tried, onTrial = append(tried, l.rules...), true
			continue
		}
		rules = append(rules, l.rules...)
		if e.texts[Source{Trial, from.Name}] == nil || from.Kind != Stored {
			tried = append(tried, l.rules...)
		}
	}
	inForce := newProgram(e.words, rules)
	inForce.version = e.digest()
	e.program.Store(inForce)
	if !onTrial {
		e.trial.Store(nil)
		return
	}
	next := &trial{program: newProgram(e.words, tried), inForce: inForce, report: newReport(e.opts.Now())}
	if before := e.trial.Load(); before != nil && e.sameTrial() {
		next.report = before.report
	}
	e.trial.Store(next)
}

// digest is the beginning of the SHA-256 of the texts in force, with their names.
func (e *Engine) digest() string {
	var texts []string
	for from, l := range e.texts {
		if from.Kind != Trial {
			texts = append(texts, fmt.Sprintf("%q %q %q", from.Kind, from.Name, l.text))
		}
	}
	slices.Sort(texts)
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(sum[:6])
}

// set puts a text in force in place of an older one. One that is broken
// changes nothing: the older stays.
func (e *Engine) set(from Source, text, by string, at time.Time) error {
	rules, err := parse(from.prefix(), text, from)
	if err == nil {
		err = e.known(rules)
	}
	return e.install(from, &loaded{text: text, last: text, rules: rules, updated: at, by: by}, err)
}

// follow puts a text in force that was validated when it was stored. If it names
// actions or attributes that no longer exist, it still stays in force: it may
// forbid something.
func (e *Engine) follow(from Source, text, by string, at time.Time) {
	text = e.modern(from, text)
	rules, err := parse(from.prefix(), text, from)
	if err == nil {
		if doubt := e.known(rules); doubt != nil {
			e.opts.Log.Warn("a policy speaks of what there is not", "policy", from.Name, "error", doubt)
		}
	}
	_ = e.install(from, &loaded{text: text, last: text, rules: rules, updated: at, by: by}, err)
}

// namedActions are the actions in a text of policies.
var namedActions = regexp.MustCompile(`\bAction::"[a-z][a-z0-9]*:[a-z0-9.-]+"`)

// modern is a text that an earlier version has stored, with the actions of
// agents' commands as they are called by now: a policy that forbids one goes on
// forbidding it.
func (e *Engine) modern(from Source, text string) string {
	return namedActions.ReplaceAllStringFunc(text, func(named string) string {
		name := strings.TrimSuffix(strings.TrimPrefix(named, `Action::"`), `"`)
		now := e.words.former(name)
		if e.words.has(name) || now == "" {
			return named
		}
		e.opts.Log.Warn("a policy names the command of an agent as earlier versions did; put it anew with the present name", "policy", from.Name, "action", name, "now", now)
		return `Action::"` + now + `"`
	})
}

// install puts a text in force unless it has a fault, and notifies of that.
func (e *Engine) install(from Source, l *loaded, wrong error) error {
	e.mu.Lock()
	old := e.texts[from]
	if wrong == nil && e.count()-len(e.rulesOf(from))+len(l.rules) > mostRules {
		wrong = fmt.Errorf("there are more than %d policies", mostRules)
	}
	switch {
	case wrong != nil && old == nil:
		e.texts[from] = &loaded{text: l.text, last: l.text, updated: l.updated, by: l.by, broken: wrong.Error()}
	case wrong != nil:
		stays := *old
		stays.last, stays.broken = l.text, wrong.Error()
		e.texts[from] = &stays
	default:
		e.texts[from] = l
		e.rebuild()
	}
	e.mu.Unlock()
	if wrong != nil {
		e.metrics.reloads.WithLabelValues("broken").Inc()
		e.opts.Log.Error("a policy is broken; the former one stays in force", "policy", from.Name, "from", from.Kind, "error", wrong)
		e.opts.Notify(Event{Name: "policy.broken", Policy: from.Name, From: from.Kind, Reason: wrong.Error()})
		return wrong
	}
	e.metrics.reloads.WithLabelValues("ok").Inc()
	e.moved(&e.epoch)
	if old == nil || old.text != l.text {
		e.opts.Log.Info("policy loaded", "policy", from.Name, "from", from.Kind, "policies", len(l.rules))
		e.opts.Notify(Event{Name: "policy.changed", Policy: from.Name, From: from.Kind})
	}
	return nil
}

// remove takes a text out of force.
func (e *Engine) remove(from Source) {
	e.mu.Lock()
	if e.texts[from] == nil {
		e.mu.Unlock()
		return
	}
	delete(e.texts, from)
	e.rebuild()
	e.mu.Unlock()
	e.opts.Log.Info("policy removed", "policy", from.Name, "from", from.Kind)
	e.moved(&e.epoch)
	e.opts.Notify(Event{Name: "policy.removed", Policy: from.Name, From: from.Kind})
}

func (e *Engine) count() (n int) {
	for _, l := range e.texts {
		n += len(l.rules)
	}
	return n
}

func (e *Engine) rulesOf(from Source) []*rule {
	if l := e.texts[from]; l != nil {
		return l.rules
	}
	return nil
}

func (e *Engine) broken() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.texts {
		if l.broken != "" {
			n++
		}
	}
	return n
}

// Check fails for a text of policies that is refused: it cannot be read, or it
// names something unknown. Warnings are about oddities that may be all right.
func (e *Engine) Check(text string) (ids, warnings []string, err error) {
	rules, err := parse("policy", text, Source{Stored, "policy"})
	if err != nil {
		return nil, nil, err
	}
	if err := e.known(rules); err != nil {
		return nil, nil, err
	}
	for _, r := range rules {
		ids = append(ids, r.id)
		warnings = append(warnings, e.doubts(r)...)
	}
	slices.Sort(warnings)
	return ids, slices.Compact(warnings), nil
}

// known checks rules against the schema.
func (e *Engine) known(rules []*rule) error {
	var errs []error
	for _, r := range rules {
		if err := e.validate(r); err != nil {
			errs = append(errs, err)
		}
		if len(errs) == 10 {
			break
		}
	}
	return errors.Join(errs...)
}

// invalid is the error for a text that is refused.
func invalid(param string, err error) error {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if len(text) > 2000 {
		text = text[:2000] + " …"
	}
	return protocol.InvalidParam(param, strings.ToValidUTF8(text, "?"))
}

// CheckShipped reports faults of the policies that come with the bridge,
// for the test that knows all commands. Policies about families
// of which the bridge was built without any command are left out.
func (e *Engine) CheckShipped() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for from, l := range e.texts {
		if from.Kind != Shipped {
			continue
		}
		for _, r := range l.rules {
			if !slices.ContainsFunc(actionsOf(r.policy), e.words.idle) {
				errs = append(errs, e.validate(r))
			}
		}
	}
	return errors.Join(errs...)
}
