package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// recipientsKept are the fields that hold recipients, and who fills them in.
// Others would be nobody until somebody remembers to.
var recipientsKept = map[string]string{
	"commands/feed.event.to": "Published, which is told them",
	"broker.turn.to":         "loadOwn, which is told them; the audience of the turn's message refers to them",
	"broker.audience.others": "audienceOf; a turn's message has been through load or loadOwn",
}

// TestRecipientsAreSaidWhereTheyAreMade finds recipients that are nobody because
// nobody said who they are. Only functions of package protocol make recipients.
func TestRecipientsAreSaidWhereTheyAreMade(t *testing.T) {
	found := make(map[string]bool)
	for path, file := range sources(t) {
		room := roomOf(path)
		if room == "protocol" {
			continue
		}
		for _, what := range unsaidRecipients(file, room, found) {
			t.Errorf("%s: %s: say who they are with protocol.Everybody, Only, Either or Administrators", path, what)
		}
	}
	for field := range recipientsKept {
		if !found[field] {
			t.Errorf("%s is in recipientsKept, and keeps no recipients", field)
		}
	}
}

// unsaidRecipients describes where a file has recipients without saying who they
// are. The fields that hold some are added to kept.
func unsaidRecipients(file *ast.File, room string, kept map[string]bool) (list []string) {
	complain := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			for field := range fieldsIn(n, room, isRecipients) {
				kept[field] = true
				if recipientsKept[field] == "" {
					complain("%s keeps recipients, and is not in recipientsKept", field)
				}
			}
		case *ast.CompositeLit:
			if isRecipients(n.Type, room) {
				complain("a literal is nobody")
			}
		case *ast.ValueSpec:
			if n.Type != nil && isRecipients(n.Type, room) && len(n.Values) == 0 {
				complain("variable %s is nobody", n.Names[0].Name)
			}
		case *ast.FuncType:
			if n.Results == nil {
				break
			}
			for _, r := range n.Results.List {
				if len(r.Names) > 0 && isRecipients(r.Type, room) {
					complain("the result %s is nobody", r.Names[0].Name)
				}
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "new" && isRecipients(n.Args[0], room) {
				complain("new ones are nobody")
			}
		}
		return true
	})
	return list
}

func isRecipients(e ast.Expr, _ string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Recipients" {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "protocol"
}

func TestRecipientsThatAreNotSaidAreFound(t *testing.T) {
	for source, want := range map[string]int{
		`var to = protocol.Everybody(space)`:                                       0,
		`func f(to protocol.Recipients) protocol.Recipients { return to }`:         0,
		`type t struct { publish func(protocol.Recipients) }`:                      0,
		`var to protocol.Recipients`:                                               1,
		`func f() { var to protocol.Recipients; publish(to) }`:                     1,
		`var to = protocol.Recipients{}`:                                           1,
		`var to = new(protocol.Recipients)`:                                        1,
		`func f() (to protocol.Recipients) { return }`:                             1,
		`var f = func() (to protocol.Recipients) { return }`:                       1,
		`type t struct { to protocol.Recipients }`:                                 1,
		`type t struct { to []protocol.Recipients; also *protocol.Recipients }`:    2,
		`var all = map[string]protocol.Recipients{"a": protocol.Administrators()}`: 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := unsaidRecipients(file, "p", map[string]bool{}); len(got) != want {
			t.Errorf("%s: %q, want %d", source, got, want)
		}
	}
}
