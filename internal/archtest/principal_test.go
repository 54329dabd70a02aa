package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// callScoped are the fields that hold a principal, and why each is no longer
// there than the call, or the connection, that was authenticated. Whatever
// outlives those holds a grant.Grant, which is judged before every act.
var callScoped = map[string]string{
	"commands.Call.Principal":                    "the call itself; the router ends it with the credential",
	"commands.Inbound.Principal":                 "one request on its way in",
	"doors/files.Deed.Who":                       "one deed, recorded at once",
	"doors/files/webdav.request.who":             "one request; its body and its answer end with the credential",
	"doors/files/s3.request.who":                 "one request; its body and its answer end with the credential",
	"commands.Audited.Principal":                 "one entry of the trail, written at once",
	"llm/model.Question.Principal":               "one question to a model, within a call",
	"llm/model.question.who":                     "one question to a model, within a call",
	"llm/model.EmbedQuestion.Principal":          "one question to a model, within a call",
	"llm/tools.Environment.Principal":            "one round of tools; whoever goes on makes another",
	"llm/approval.Event.By":                      "one event, told at once",
	"llm/parked.Order.Principal":                 "one call that is being parked; what is kept of it is a grant",
	"llm/parked.Place.who":                       "within a call, for whatever of it is parked",
	"llm/parked.Job.Principal":                   "as its grant's authority had it just now; the job ends with the grant",
	"llm/loop.Resumption.Principal":              "that of a job",
	"doors/mcp.Message.Principal":                "one message on its way in",
	"doors/mcp.request.who":                      "one request, which ends when its credential does",
	"doors/files/transfer.Publication.Principal": "one message on its way in",
	"doors/nats.request.who":                     "one request on its way in",
	"doors/nats.Prompt.Principal":                "one prompt, until it is answered; its work holds a grant",
	"doors/a2a.Prompt.Principal":                 "one prompt, until it is answered; its work holds a grant",
	"security.Attempt.Who":                       "one attempt to log in, told at once",
	"security.latest.who":                        "the newest credential of a connection, kept by the authority that judges it",
	"security.recognition.who":                   "who showed a credential on a connection; it is checked before each use, and shown again",
	"security.decision.who":                      "compared by pointer with the connection's own, never asked",
	"commands.planCaller.who":                    "compared by pointer with the connection's own, never asked",
	"security/audit.likeness.principal":          "compared by pointer with that of a call, never asked",
	"commands.permission.who":                    "compared by pointer with the connection's own, never asked",
	"security.Authenticator.anonymous":           "who shows nothing under --dev; asked for by requests",
	"security/policy.Query.Who":                  "one question to policy",
	"security/policy.subject.who":                "cached facts about a principal, looked up by the caller's own",
	"security/audit.reading.who":                 "one query of the trail",
	"security/pki.entry.principal":               "what a certificate says, from which principals are made",
	"security/token.Token.Principal":             "a token that was verified just now",
	"vfs.mirrorReader.who":                       "the files of a group as one call sees them",
	"vfs/mirror/caps.errand.Principal":           "one command, which the bridge that mirrors runs for the one that authenticated the caller and waits",
	"doors/http.socket.principal":                "a connection, which ends with the credential",
	"broker.Client.principal":                    "a connection, which ends with the credential",
	"broker.Identity.Principal":                  "a client that is being let in",
	"broker.session.principal":                   "whose session it is; who connects to it is authenticated anew",
	"broker.restorer.principals":                 "whose the sessions are that are being restored, as in their records; gone once they are",
	"broker.storedSession.Principal":             "whose session it is; who connects to it is authenticated anew",
	"broker.storedLastWill.Principal":            "whose Will it is; it is judged anew when it is published",
	"broker.Refusal.Who":                         "one refusal, told at once",
	"security/token.errExpired.who":              "whose an expired token was, told at once; it opens nothing",
	"registry/doctor.examination.who":            "one examination, within a call",
	"registry/doctor.Session.Who":                "one examination, within a call",
	"registry.conn.principal":                    "a connection, which ends with the credential",
	"registry/ask.Sender.Who":                    "who has published one message, while it is handled",
	"registry.bid.who":                           "one registration of a skill, within a call",
	"doors/mqtt.presence.as":                     "whose connection is counted, and not counted any more",
	"llm/agent.Agent.who":                        "the bridge's own agent, which has no credential",
	"connect/homeassistant/entities.Command.Who": "one command of Home Assistant, judged when it runs and again when it was approved",
	"doors/a2a.Arrival.Principal":                "one request over MQTT, which ends with its answer and holds a grant meanwhile",
	"connect/device.Fleet.who":                   "the bridge itself, for devices that have no credential",
}

// makers may make principals: others get them from there.
var makers = map[string]string{
	"security":              "authenticates",
	"protocol/grant":        "gives authorities what they judge",
	"internal/bench":        "has no credentials",
	"internal/authz":        "explains policies",
	"llm/agent":             "is an agent of the bridge's own",
	"connect/a2a":           "acts for agents elsewhere, which have no credential here",
	"connect/device":        "acts for devices that have no credential",
	"sdk/conformance":       "plays the bridge to one device",
	"doors/files/filestest": "plays who authenticates, for tests of doors",
}

// TestNoPrincipalIsKeptBeyondItsCall looks at every field of every struct, and
// at who makes principals.
func TestNoPrincipalIsKeptBeyondItsCall(t *testing.T) {
	found := make(map[string]bool)
	for path, file := range sources(t) {
		room := roomOf(path)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				for field := range fieldsIn(n, room, isPrincipal) {
					found[field] = true
					if callScoped[field] == "" {
						t.Errorf("%s: %s keeps a principal: hold a grant.Grant and ask its authority before every act, or say in callScoped why it is gone with its call", path, field)
					}
				}
			case *ast.CompositeLit:
				if isPrincipal(n.Type, room) && !makes(room) {
					t.Errorf("%s: %s makes a principal; only what authenticates may", path, room)
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "grant" && n.Sel.Name == "Original" && room != "security" && room != "protocol/grant/granttest" {
					t.Errorf("%s: %s takes a grant for a principal; its authority says who that is now", path, room)
				}
			}
			return true
		})
	}
	for field := range callScoped {
		if !found[field] {
			t.Errorf("%s is in callScoped, and keeps no principal", field)
		}
	}
}

func makes(room string) bool {
	for prefix := range makers {
		if within(room, prefix) {
			return true
		}
	}
	return false
}

// roomOf is the package that a file is of.
func roomOf(path string) string { return filepath.ToSlash(filepath.Dir(path)) }

// fieldsIn are the fields of a struct that hold values of a type.
func fieldsIn(spec *ast.TypeSpec, room string, isType func(e ast.Expr, room string) bool) map[string]bool {
	fields := make(map[string]bool)
	ast.Inspect(spec.Type, func(n ast.Node) bool {
		s, ok := n.(*ast.StructType)
		if !ok {
			_, function := n.(*ast.FuncType)
			return !function
		}
		for _, f := range s.Fields.List {
			holds := false
			ast.Inspect(f.Type, func(n ast.Node) bool {
				if e, ok := n.(ast.Expr); ok && isType(e, room) {
					holds = true
				}
				_, function := n.(*ast.FuncType)
				_, methods := n.(*ast.InterfaceType)
				return !function && !methods
			})
			if !holds {
				continue
			}
			names := []string{"embedded"}
			if len(f.Names) > 0 {
				names = names[:0]
			}
			for _, name := range f.Names {
				names = append(names, name.Name)
			}
			for _, name := range names {
				fields[room+"."+spec.Name.Name+"."+name] = true
			}
		}
		return true
	})
	return fields
}

// isPrincipal reports whether an expression is the type of principals.
func isPrincipal(e ast.Expr, room string) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		return ok && x.Name == "protocol" && e.Sel.Name == "Principal"
	case *ast.Ident:
		return room == "protocol" && e.Name == "Principal"
	}
	return false
}

// sources are the files of all packages without their tests, by path from the
// module's root.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	root := filepath.Join("..", "..")
	files, set := make(map[string]*ast.File), token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "testdata") {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files[name], err = parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatal("found only " + strconv.Itoa(len(files)) + " files")
	}
	return files
}
