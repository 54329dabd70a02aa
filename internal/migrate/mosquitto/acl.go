package mosquitto

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/aibridge/aibridge/protocol"

	"github.com/aibridge/aibridge/internal/migrate"
)

// A rule is one line of an ACL file about one user.
type rule struct {
	read, write bool
	deny        bool
	filter      string
}

// An acl has the rules of every user.
type acl struct {
	file  string
	users []string // in the order of the file, then of the password file
	rules map[string][]rule
	notes []migrate.Note
}

// Policy reads an ACL file as a policy in Cedar for the users of the password
// file. Publishing and subscribing outside the bridge's own topics then needs a
// line that permits it. file is its name in notes.
func Policy(r io.Reader, file string, users []string) (cedar string, notes []migrate.Note, err error) {
	lines, err := directives(r)
	if err != nil {
		return "", nil, err
	}
	a := &acl{file: file, users: slices.Clone(users), rules: make(map[string][]rule)}
	user := ""
	for _, l := range lines {
		switch l.name {
		case "user":
			user = l.rest
			if protocol.AgentID("").Rule().Check(user) != "" {
				a.note(l, "%q cannot be the id of a client here: rename the user; its topics are not taken over", user)
			} else if !slices.Contains(a.users, user) {
				a.users = append(a.users, user)
				a.note(l, "the user %q has no password in the password file", user)
			}
		case "topic":
			if r, ok := a.rule(l, l.rest); ok && user == "" {
				a.note(l, "clients without a user name do not get in: %q is not taken over", r.filter)
			} else if ok {
				a.rules[user] = append(a.rules[user], r)
			}
		case "pattern":
			a.pattern(l)
		default:
			a.note(l, "%s has no counterpart", l.name)
		}
	}
	return a.cedar(), a.notes, nil
}

func (a *acl) note(l line, format string, args ...any) {
	a.notes = append(a.notes, migrate.Note{File: a.file, Line: l.number, Text: fmt.Sprintf(format, args...)})
}

// pattern takes a line for every user: a policy knows no placeholders.
func (a *acl) pattern(l line) {
	r, ok := a.rule(l, l.rest)
	switch {
	case !ok:
	case strings.Contains(r.filter, "%c"):
		a.note(l, "policies do not know client ids: write %q with %%u, if client ids are user names", r.filter)
	default:
		for _, user := range a.users {
			own := r
			own.filter = strings.ReplaceAll(r.filter, "%u", user)
			a.rules[user] = append(a.rules[user], own)
		}
		if strings.Contains(r.filter, "%u") {
			a.note(l, "%q is written out for the %d users there are; a new user needs its own line in the policy", r.filter, len(a.users))
		}
	}
}

// rule reads [read|write|readwrite|deny] FILTER.
func (a *acl) rule(l line, text string) (r rule, ok bool) {
	access, filter, two := strings.Cut(text, " ")
	r = rule{read: true, write: true, filter: strings.TrimSpace(filter)}
	switch {
	case !two:
		r.filter = text
	case access == "read":
		r.write = false
	case access == "write":
		r.read = false
	case access == "deny":
		r.deny = true
	case access != "readwrite":
		r.filter = text // a topic with a space
	}
	switch {
	case r.filter == "":
		a.note(l, "there is no topic")
		return r, false
	case strings.HasPrefix(r.filter, "$"):
		a.note(l, "topics that begin with $ are for administrators: %q is not taken over", r.filter)
		return r, false
	case strings.ContainsFunc(r.filter, func(c rune) bool { return c == '*' || !unicode.IsPrint(c) }): // * stands for anything in policies
		a.note(l, "a topic with * or characters that cannot be seen cannot be said in a policy: %q is not taken over", r.filter)
		return r, false
	case r.deny:
		a.note(l, "who is denied %q may subscribe to no filter with wildcards where it would get that", r.filter)
		return r, true
	}
	if _, ok := covers(r.filter, false); !ok {
		a.note(l, "%q cannot be said in a policy without permitting more: it is not taken over", r.filter)
		return r, false
	}
	return r, true
}

// covers is a condition on resource.id that holds for the topics and the filters
// that a filter covers, and no others; those of a denial may be more. ok is
// whether there is one: + before other levels is one level more or less only
// where the number of levels is known.
func covers(filter string, denied bool) (condition string, ok bool) {
	quote := strconv.Quote
	levels := strings.Split(filter, "/")
	open := levels[len(levels)-1] == "#"
	if !strings.ContainsAny(filter, "+#") {
		return "resource.id == " + quote(filter), true
	}
	if open {
		levels = levels[:len(levels)-1]
		first := slices.Index(levels, "+")
		if first >= 0 && !denied && slices.ContainsFunc(levels[first:], func(l string) bool { return l != "+" }) {
			return "", false
		}
		for i, l := range levels {
			if l == "+" {
				levels[i] = "*"
			}
		}
		stem := strings.Join(levels, "/")
		switch {
		case len(levels) == 0:
			return "true", true
		case first < 0:
			return fmt.Sprintf("(resource.id == %s || resource.id like %s)", quote(stem), quote(stem+"/*")), true
		}
		// A filter that ends in # is covered if it has as many levels before.
		return fmt.Sprintf("(resource.id like %s && (!(resource.id like \"*#\") || resource.id like %s))", quote(stem), quote(stem+"/*")), true
	}
	slashes := len(levels) - 1
	for i, l := range levels {
		if l == "+" {
			levels[i] = "*"
		}
	}
	return fmt.Sprintf("(resource.id like %s && !(resource.id like %s) && !(resource.id like \"*#\"))",
		quote(strings.Join(levels, "/")), quote("*"+strings.Repeat("/*", slashes+1))), true
}

// cedar is the policy: it forbids users with a password all topics outside the
// bridge's own that no rule permits.
func (a *acl) cedar() string {
	var b strings.Builder
	for _, act := range []struct {
		name, does string
		applies    func(rule) bool
	}{
		{"publish", "publish", func(r rule) bool { return r.write }},
		{"subscribe", "subscribe to", func(r rule) bool { return r.read }},
	} {
		fmt.Fprintf(&b, "@id(\"mosquitto.%s\")\n@why(\"clients with a password %s the topics that the ACL of mosquitto had for them\")\n", act.name, act.does)
		fmt.Fprintf(&b, "forbid (principal, action == Action::\"topic:%s\", resource)\nwhen { resource has kind && resource.kind == \"outside\" && context.method == \"password\" }\nunless {\n", act.name)
		var users []string
		for _, user := range a.users {
			if text := conditions(user, a.rules[user], act.applies, act.name == "subscribe"); text != "" {
				users = append(users, text)
			}
		}
		if len(users) == 0 {
			users = []string{"  false"}
		}
		b.WriteString(strings.Join(users, " ||\n") + "\n};\n\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// conditions are the ones that permit a user something, "" if nothing does.
func conditions(user string, rules []rule, applies func(rule) bool, subscribing bool) string {
	var grants, denials []string
	var denied []rule
	for _, r := range rules {
		if r.deny {
			condition, _ := covers(r.filter, true)
			denials, denied = append(denials, condition), append(denied, r)
		}
	}
	for _, r := range rules {
		if r.deny || !applies(r) {
			continue
		}
		condition, _ := covers(r.filter, false)
		if subscribing && slices.ContainsFunc(denied, func(d rule) bool { return overlap(r.filter, d.filter) }) {
			condition = fmt.Sprintf(`(%s && !(resource.id like "*+*" || resource.id like "*#*"))`, condition)
		}
		grants = append(grants, condition)
	}
	if len(grants) == 0 {
		return ""
	}
	text := fmt.Sprintf("principal == Agent::%s && (%s)", strconv.Quote(user), strings.Join(grants, " || "))
	if len(denials) > 0 {
		text += fmt.Sprintf(" && !(%s)", strings.Join(denials, " || "))
	}
	return "  (" + text + ")"
}

// overlap reports whether there is a topic that two filters match.
func overlap(one, other string) bool {
	a, b := strings.Split(one, "/"), strings.Split(other, "/")
	for i := 0; i < len(a) || i < len(b); i++ {
		switch {
		case i == len(a):
			return b[i] == "#" // which matches the level above, too
		case i == len(b):
			return a[i] == "#"
		case a[i] == "#" || b[i] == "#":
			return true
		case a[i] != b[i] && a[i] != "+" && b[i] != "+":
			return false
		}
	}
	return true
}
