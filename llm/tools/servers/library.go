package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/protocol"
)

// The bounds of the lists of a server besides its tools. Declarations are
// bounded by maxDeclaration, all of one list by maxList.
const (
	maxResources = 2000
	maxTemplates = 256
	maxPrompts   = 512
	maxList      = 4 << 20 // bytes of JSON
	maxName      = 256     // bytes
)

// A listed is an entry of a server's list, with its key.
type listed[T any] struct {
	is   *T
	key  string
	hash string // of the whole entry, hexadecimal
}

// A library is the readable offer of a server: resources, templates of their URIs, and
// prompts, each in the order of their keys.
type library struct {
	readable  bool   // the server has resources
	sum       string // hash of the entries
	resources []listed[sdk.Resource]
	templates []listed[sdk.ResourceTemplate]
	prompts   []listed[sdk.Prompt]
}

// browse lists the resources, templates and prompts of the server. A list that fails
// keeps its old entries, so that a failure to list prompts does not affect the rest.
func (l *connection) browse(ctx context.Context, session *sdk.ClientSession, old *library) *library {
	hello := session.InitializeResult()
	if hello == nil || hello.Capabilities == nil {
		return &library{}
	}
	now := &library{readable: hello.Capabilities.Resources != nil}
	if now.readable {
		now.resources = take(l, "resources", session.Resources(ctx, nil), old.resources, maxResources, keyOfResource)
		now.templates = take(l, "resource templates", session.ResourceTemplates(ctx, nil), old.templates, maxTemplates, keyOfTemplate)
	}
	if hello.Capabilities.Prompts != nil {
		now.prompts = take(l, "prompts", session.Prompts(ctx, nil), old.prompts, maxPrompts, l.keyOfPrompt)
	}
	return now
}

// take returns at most limit valid entries of a list. The first entry of a key counts.
func take[T any](l *connection, what string, list iter.Seq2[*T, error], old []listed[T], limit int, key func(*T) (string, bool)) []listed[T] {
	var taken []listed[T]
	seen := make(map[string]bool)
	size, count := 0, 0
	for one, err := range list {
		if err != nil {
			l.service.opts.Log.Debug("a list of an MCP server failed", "server", l.config.Name, "list", what, "error", l.told(err))
			return old
		}
		if count++; count > limit || size > maxList {
			l.service.opts.Log.Warn("an MCP server lists more entries than the limit", "server", l.config.Name, "list", what, "limit", limit)
			break
		}
		if one == nil {
			continue
		}
		name, good := key(one)
		text, err := json.Marshal(one)
		if !good || err != nil || len(text) > maxDeclaration || seen[name] {
			continue
		}
		seen[name] = true
		size += len(text)
		sum := sha256.Sum256(text)
		taken = append(taken, listed[T]{one, name, hex.EncodeToString(sum[:])})
	}
	slices.SortFunc(taken, func(x, y listed[T]) int { return strings.Compare(x.key, y.key) })
	return taken
}

func keyOfResource(r *sdk.Resource) (string, bool) { return r.URI, readable(r.URI) }

func keyOfTemplate(t *sdk.ResourceTemplate) (string, bool) {
	return t.URITemplate, visible(t.URITemplate, maxURI) && !strings.HasPrefix(t.URITemplate, URIPrefix)
}

func (l *connection) keyOfPrompt(p *sdk.Prompt) (string, bool) {
	return p.Name, visible(p.Name, maxName) && !relayedMeta(p.Meta) && wantedBy(l.config.Prompts, p.Name)
}

// readable reports whether a text is the URI of a resource of the server itself.
// [URIPrefix] begins those that another bridge has from a server of its own.
func readable(uri string) bool {
	at, err := url.Parse(uri)
	return err == nil && at.Scheme != "" && visible(uri, maxURI) && !strings.ContainsFunc(uri, unicode.IsSpace) && !strings.HasPrefix(strings.ToLower(uri), URIPrefix)
}

// visible reports whether a name has at most longest bytes and no invisible characters.
func visible(name string, longest int) bool {
	return name != "" && len(name) <= longest && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || protocol.Hidden(r) })
}

// approved is the part of the library that may be offered.
func (b *library) approved(by *Approved) *library {
	if by == nil {
		return &library{}
	}
	open := &library{readable: b.readable && by.Resources, prompts: only(b.prompts, by.Prompts)}
	if open.readable {
		open.resources = b.resources
		open.templates = only(b.templates, by.Templates)
	}
	open.sum = open.sumOf()
	return open
}

// open is the readable part of the library, empty while the server is not connected.
func (l *connection) open() *library {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil {
		return &library{}
	}
	return l.offer
}

// only returns the entries whose current hash is approved.
func only[T any](all []listed[T], approved map[string]string) []listed[T] {
	var some []listed[T]
	for _, one := range all {
		if approved[one.key] == one.hash {
			some = append(some, one)
		}
	}
	return some
}

// hashes returns the hashes of a list, by key.
func hashes[T any](all []listed[T]) map[string]string {
	m := make(map[string]string, len(all))
	for _, one := range all {
		m[one.key] = one.hash
	}
	return m
}

// sumOf is a hash of all entries of a library.
func (b *library) sumOf() string {
	sum := sha256.New()
	for _, one := range b.resources {
		sum.Write([]byte(one.hash))
	}
	for _, one := range b.templates {
		sum.Write([]byte("t" + one.hash))
	}
	for _, one := range b.prompts {
		sum.Write([]byte("p" + one.hash))
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
