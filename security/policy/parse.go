package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// Bounds of a policy's text. Policies are evaluated for every command.
const (
	maxText     = 64 << 10 // bytes of one text
	maxPolicies = 100      // in one text
	maxNodes    = 1000     // operators and operands in one policy
	maxNesting  = 50       // of brackets, and of if and else
)

// A rule is one policy, ready to be asked.
type rule struct {
	id       string // unique: the name of its text and its own
	why      string // the author's reason, @why
	source   Source
	policy   *cedar.Policy
	reads    reads
	builtin  bool // came with the bridge
	position int  // line in its text
}

func (r *rule) effect() string {
	if r.policy.Effect() == cedar.Forbid {
		return "forbid"
	}
	return "permit"
}

// parse reads a text of policies. The rules' ids begin with the text's name.
func parse(name, text string, from Source) ([]*rule, error) {
	if err := bounded(text); err != nil {
		return nil, err
	}
	list, err := cedar.NewPolicyListFromBytes(name, []byte(text))
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "parser error: "))
	}
	if len(list) == 0 {
		return nil, errors.New("there is no policy in it")
	}
	if len(list) > maxPolicies {
		return nil, fmt.Errorf("there are more than %d policies in it", maxPolicies)
	}
	rules := make([]*rule, 0, len(list))
	seen := make(map[string]bool, len(list))
	for i, p := range list {
		notes := p.Annotations()
		id := name
		if own := string(notes["id"]); own != "" {
			if !validID(own) {
				return nil, fmt.Errorf("line %d: @id may have at most 64 letters, digits, dots, dashes and underscores", p.Position().Line)
			}
			id = name + "/" + own
		} else if len(list) > 1 {
			id = fmt.Sprintf("%s/%d", name, i+1)
		}
		if seen[id] {
			return nil, fmt.Errorf("line %d: the @id %q is given twice", p.Position().Line, id)
		}
		seen[id] = true
		if n := nodes(p); n > maxNodes {
			return nil, fmt.Errorf("line %d: the policy is too long: it has %d operators and operands, and may have %d", p.Position().Line, n, maxNodes)
		}
		why := string(notes["why"])
		if len(why) > 512 || !printable(why) {
			return nil, fmt.Errorf("line %d: @why may have at most 512 bytes and no control characters", p.Position().Line)
		}
		rules = append(rules, &rule{id: id, why: why, source: from, policy: p, reads: readsOf(p), position: p.Position().Line})
	}
	return rules, nil
}

// bounded refuses texts that would keep the parser busy or deep in recursion.
func bounded(text string) error {
	switch {
	case len(text) > maxText:
		return fmt.Errorf("it is longer than %d bytes", maxText)
	case !utf8.ValidString(text):
		return errors.New("it is not valid UTF-8")
	case strings.IndexByte(text, 0) >= 0:
		return errors.New("it contains NUL")
	}
	depth, ifs := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(', '[', '{':
			if depth++; depth > maxNesting {
				return fmt.Errorf("brackets are nested deeper than %d", maxNesting)
			}
		case ')', ']', '}':
			depth--
		case ';':
			ifs = 0
		case 'i':
			if strings.HasPrefix(text[i:], "if") {
				if ifs++; ifs > maxNesting*4 {
					return errors.New("too many ifs in one policy")
				}
			}
		}
	}
	return nil
}

func validID(id string) bool {
	return len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

func printable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == 0x7F }) < 0
}

// inspect visits every node of a policy's conditions.
func inspect(p *cedar.Policy, visit func(ast.IsNode) bool) {
	for _, c := range (*ast.Policy)(p.AST()).Conditions {
		ast.Inspect(ast.NewNode(c.Body), visit)
	}
}

func nodes(p *cedar.Policy) (n int) {
	inspect(p, func(ast.IsNode) bool { n++; return true })
	return n
}

// byID orders rules.
func byID(rules []*rule) {
	slices.SortFunc(rules, func(a, b *rule) int { return cmp.Compare(a.id, b.id) })
}
