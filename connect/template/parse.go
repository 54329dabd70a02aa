package template

import (
	"fmt"
	"strconv"
)

// A parser reads tokens by recursive descent.
type parser struct {
	tokens []token
	at     int
	depth  int
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

// accept takes a sign or keyword if it is next.
func (p *parser) accept(text string) bool {
	t := p.peek()
	if (t.kind == tokenSign || t.kind == tokenName || t.kind == tokenClose) && t.text == text {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(text string) error {
	if p.accept(text) {
		return nil
	}
	return fmt.Errorf("%s is expected, and there is %s", text, p.peek())
}

func (t token) String() string {
	switch t.kind {
	case tokenEnd:
		return "the end"
	case tokenText:
		return "text"
	}
	return strconv.Quote(t.text)
}

// deeper counts a level of nesting, which up ends.
func (p *parser) deeper() error {
	if p.depth++; p.depth > maxDepth {
		return fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	return nil
}

func (p *parser) up() { p.depth-- }

// body reads pieces up to the end or, within an if, to the tag that ends the
// branch: elif, else or endif.
func (p *parser) body(within bool) (pieces []piece, end string, err error) {
	if err := p.deeper(); err != nil {
		return nil, "", err
	}
	defer p.up()
	for {
		t := p.next()
		switch {
		case t.kind == tokenEnd && within:
			return nil, "", fmt.Errorf("{%% endif %%} is missing")
		case t.kind == tokenEnd:
			return pieces, "", nil
		case t.kind == tokenText:
			pieces = append(pieces, text(t.text))
			continue
		case t.text == "{{":
			value, err := p.expression()
			if err == nil {
				err = p.expect("}}")
			}
			if err != nil {
				return nil, "", err
			}
			pieces = append(pieces, output{value})
			continue
		}
		made, end, err := p.tag()
		if err != nil || end != "" {
			return pieces, end, err
		}
		pieces = append(pieces, made)
	}
}

// tag reads a {% tag %}. end is its name if it ends a branch; of elif the
// condition follows.
func (p *parser) tag() (made piece, end string, err error) {
	switch name := p.next(); name.text {
	case "elif":
		return nil, "elif", nil
	case "else", "endif":
		return nil, name.text, p.expect("%}")
	case "set":
		made, err = p.set()
	case "if":
		made, err = p.choice()
	default:
		err = fmt.Errorf("{%% %s %%} is not understood", name.text)
	}
	return made, "", err
}

func (p *parser) set() (piece, error) {
	name := p.next()
	if name.kind != tokenName {
		return nil, fmt.Errorf("set needs a name, and there is %s", name)
	}
	if err := p.expect("="); err != nil {
		return nil, err
	}
	value, err := p.expression()
	if err != nil {
		return nil, err
	}
	return set{name.text, value}, p.expect("%}")
}

func (p *parser) choice() (piece, error) {
	var c choice
	for conditional := true; ; {
		var b branch
		var err error
		if conditional {
			if b.when, err = p.expression(); err != nil {
				return nil, err
			}
			if err = p.expect("%}"); err != nil {
				return nil, err
			}
		}
		body, end, err := p.body(true)
		if err != nil {
			return nil, err
		}
		b.body = body
		c = append(c, b)
		switch {
		case end == "endif":
			return c, nil
		case !conditional:
			return nil, fmt.Errorf("{%% %s %%} after {%% else %%}", end)
		}
		conditional = end == "elif"
	}
}

// expression reads a whole expression: a value, or one of two by a condition.
func (p *parser) expression() (expr, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.up()
	value, err := p.binary(0)
	if err != nil || !p.accept("if") {
		return value, err
	}
	when, err := p.binary(0)
	if err != nil {
		return nil, err
	}
	otherwise := expr(literal{undefined})
	if p.accept("else") {
		if otherwise, err = p.expression(); err != nil {
			return nil, err
		}
	}
	return either{when, value, otherwise}, nil
}

// levels are the binary operators, the loosest first. Level 2 is the unary not.
var levels = [][]string{{"or"}, {"and"}, {"not"}, {"==", "!=", "<", "<=", ">", ">=", "in", "is"}, {"~"}, {"+", "-"}, {"*", "/", "//", "%"}}

const (
	levelNot     = 2
	levelCompare = 3
)

// binary reads operators of a level and of tighter ones.
func (p *parser) binary(level int) (expr, error) {
	if level == len(levels) {
		return p.unary()
	}
	if level == levelNot {
		return p.negated()
	}
	left, err := p.binary(level + 1)
	for err == nil {
		operator, ok := p.operator(level)
		if !ok {
			return left, nil
		}
		if operator == "is" {
			left, err = p.test(left)
			continue
		}
		var right expr
		if right, err = p.binary(level + 1); err == nil {
			left = operation{operator, left, right}
		}
	}
	return nil, err
}

func (p *parser) negated() (expr, error) {
	if !p.accept("not") {
		return p.binary(levelNot + 1)
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.up()
	value, err := p.negated()
	return negation{value}, err
}

// operator takes the operator that is next if it is of a level.
func (p *parser) operator(level int) (string, bool) {
	if level == levelCompare && p.peek().text == "not" && p.peek().kind == tokenName && p.at+1 < len(p.tokens) && p.tokens[p.at+1].text == "in" {
		p.at += 2
		return "not in", true
	}
	for _, o := range levels[level] {
		if p.accept(o) {
			return o, true
		}
	}
	return "", false
}

// test reads the test after is.
func (p *parser) test(of expr) (expr, error) {
	not := p.accept("not")
	name := p.next()
	if name.kind != tokenName || !knownTest(name.text) {
		return nil, fmt.Errorf("the test %s is not understood", name)
	}
	return test{of, name.text, not}, nil
}

func (p *parser) unary() (expr, error) {
	if !p.accept("-") {
		p.accept("+")
		return p.filtered()
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.up()
	value, err := p.unary()
	return operation{"-", literal{int64(0)}, value}, err
}

// filtered reads a value with its members, calls and filters.
func (p *parser) filtered() (expr, error) {
	value, err := p.primary()
	for err == nil {
		switch {
		case p.accept("."):
			value, err = p.member(value)
		case p.accept("["):
			var key expr
			if key, err = p.expression(); err == nil {
				value, err = member{value, key}, p.expect("]")
			}
		case p.accept("|"):
			value, err = p.filter(value)
		default:
			return value, nil
		}
	}
	return nil, err
}

// member reads the name after a dot: of a member, or of a method that is called.
func (p *parser) member(of expr) (expr, error) {
	name := p.next()
	if name.kind != tokenName {
		return nil, fmt.Errorf("a name is expected behind the dot, and there is %s", name)
	}
	if !p.accept("(") {
		return member{of, literal{name.text}}, nil
	}
	filter, ok := methods[name.text]
	if !ok {
		return nil, fmt.Errorf("the method %s is not understood", name.text)
	}
	return p.apply(filter, of)
}

func (p *parser) filter(of expr) (expr, error) {
	name := p.next()
	if name.kind != tokenName || filters[name.text].apply == nil {
		return nil, fmt.Errorf("the filter %s is not understood", name)
	}
	if !p.accept("(") {
		return call(name.text, []expr{of})
	}
	return p.apply(name.text, of)
}

// apply reads the arguments of a filter behind its first, and the bracket.
func (p *parser) apply(filter string, first ...expr) (expr, error) {
	args, err := p.list(")")
	if err != nil {
		return nil, err
	}
	return call(filter, append(first, args...))
}

// list reads expressions between commas up to an end.
func (p *parser) list(end string) (list []expr, err error) {
	for !p.accept(end) {
		if len(list) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
			if p.accept(end) {
				break
			}
		}
		item, err := p.expression()
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

var words = map[string]any{
	"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil,
}

var keywords = map[string]bool{"if": true, "else": true, "and": true, "or": true, "not": true, "in": true, "is": true}

func (p *parser) primary() (expr, error) {
	t := p.next()
	switch {
	case t.kind == tokenString:
		return literal{t.text}, nil
	case t.kind == tokenNumber:
		return number(t.text)
	case t.kind == tokenName:
		return p.named(t.text)
	case t.text == "(" && t.kind == tokenSign:
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		return value, p.expect(")")
	case t.text == "[" && t.kind == tokenSign:
		items, err := p.list("]")
		return listOf(items), err
	case t.text == "{" && t.kind == tokenSign:
		return p.dictionary()
	}
	return nil, fmt.Errorf("a value is expected, and there is %s", t)
}

// named reads a word: a constant, a function that is called, or a variable.
func (p *parser) named(name string) (expr, error) {
	if value, ok := words[name]; ok {
		return literal{value}, nil
	}
	if keywords[name] {
		return nil, fmt.Errorf("a value is expected, and there is %q", name)
	}
	if !p.accept("(") {
		return variable(name), nil
	}
	if !functions[name] {
		return nil, fmt.Errorf("the function %s is not understood", name)
	}
	return p.apply(name)
}

func number(s string) (expr, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return literal{i}, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("%s is not a number", s)
	}
	return literal{f}, nil
}

func (p *parser) dictionary() (expr, error) {
	var d dictionary
	for !p.accept("}") {
		if len(d) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
			if p.accept("}") {
				break
			}
		}
		key, err := p.expression()
		if err == nil {
			err = p.expect(":")
		}
		if err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		d = append(d, [2]expr{key, value})
	}
	return d, nil
}
